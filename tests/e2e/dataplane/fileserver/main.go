// A folder over HTTP by Go's own server: ranges, validators, keep-alive and TLS that we did not write.
//
// usage: fileserver FOLDER ADDRESS [CERTIFICATE KEY]
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	files := http.FileServer(http.Dir(os.Args[1]))
	if len(os.Args) > 3 {
		log.Fatal(http.ListenAndServeTLS(os.Args[2], os.Args[3], os.Args[4], files))
	}
	log.Fatal(http.ListenAndServe(os.Args[2], files))
}
