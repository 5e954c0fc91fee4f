// Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

func main() {
	for _, folder := range os.Args[1:] {
		body, _ := os.ReadFile(folder + "/body")
		text, _ := os.ReadFile(folder + "/headers")
		secret, _ := os.ReadFile(folder + "/secret")
		headers := http.Header{}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			name, value, _ := strings.Cut(line, ": ")
			headers.Set(name, value)
		}
		fmt.Println(Verify(body, headers, string(secret)))
	}
}
