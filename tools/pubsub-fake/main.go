// Plays Google Cloud Pub/Sub for the tests: the fake of Google's own Go module, with a second port that tells what it has. It keeps
// all in memory. Its own limits: it sends more than a subscriber asks for, and never refuses an acknowledgement.
package main

import (
	"encoding/json"
	"net/http"
	"os"
	"time"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	server := pstest.NewServerWithAddress("127.0.0.1:" + os.Args[1])
	// Pub/Sub ends streams from time to time, and so does this.
	server.SetStreamTimeout(10 * time.Second)
	tell := func(answer http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(answer).Encode(server.Messages())
	}
	if err := http.ListenAndServe("127.0.0.1:"+os.Args[2], http.HandlerFunc(tell)); err != nil {
		panic(err)
	}
}
