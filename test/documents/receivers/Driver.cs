// Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
using System;
using System.IO;
using System.Linq;

static class Driver
{
    static void Main(string[] folders)
    {
        foreach (var folder in folders)
        {
            var headers = File.ReadAllLines($"{folder}/headers").Select(line => line.Split(": ", 2)).ToDictionary(two => two[0], two => two[1]);
            var good = Webhook.Verify(File.ReadAllBytes($"{folder}/body"), headers, File.ReadAllText($"{folder}/secret"));
            Console.WriteLine(good ? "true" : "false");
        }
    }
}
