<?php
// Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
require __DIR__ . '/verify.php';

foreach (array_slice($argv, 1) as $folder) {
    $headers = [];
    foreach (file("$folder/headers", FILE_IGNORE_NEW_LINES) as $line) {
        [$name, $value] = explode(': ', $line, 2);
        $headers[$name] = $value;
    }
    echo verify(file_get_contents("$folder/body"), $headers, file_get_contents("$folder/secret")) ? "true\n" : "false\n";
}
