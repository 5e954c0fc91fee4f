// Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

final class Driver {
    public static void main(String[] folders) throws Exception {
        for (String name : folders) {
            Path folder = Path.of(name);
            Map<String, String> headers = new HashMap<>();
            for (String line : Files.readAllLines(folder.resolve("headers"))) {
                String[] parts = line.split(": ", 2);
                headers.put(parts[0], parts[1]);
            }
            byte[] body = Files.readAllBytes(folder.resolve("body"));
            System.out.println(Webhook.verify(body, headers, Files.readString(folder.resolve("secret"))));
        }
    }
}
