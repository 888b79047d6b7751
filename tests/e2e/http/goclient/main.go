// A client on Go's net/http: keep-alive, chunked upload, Expect, streaming, trailers, HEAD, an early refusal.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func check(err error, what string) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

func expect(ok bool, what string) {
	if !ok {
		fmt.Fprintln(os.Stderr, "failed:", what)
		os.Exit(1)
	}
}

func main() {
	base := os.Args[1]
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{ExpectContinueTimeout: 5 * time.Second}}
	for i := 0; i < 20; i++ {
		resp, err := client.Post(base+"/echo", "text/plain", strings.NewReader(fmt.Sprint(i)))
		check(err, "post")
		body, err := io.ReadAll(resp.Body)
		check(err, "read")
		resp.Body.Close()
		expect(string(body) == fmt.Sprint(i), "echo")
	}
	big := bytes.Repeat([]byte("x"), 3<<20)
	req, _ := http.NewRequest("POST", base+"/echo", io.MultiReader(bytes.NewReader(big))) // unknown length: chunked
	req.Header.Set("Expect", "100-continue")
	req.Trailer = http.Header{"X-After": {"all"}}
	resp, err := client.Do(req)
	check(err, "chunked")
	body, err := io.ReadAll(resp.Body)
	check(err, "read chunked")
	expect(bytes.Equal(body, big), "chunked upload")

	resp, err = client.Get(base + "/stream")
	check(err, "stream")
	body, err = io.ReadAll(resp.Body)
	check(err, "read stream")
	expect(string(body) == "0\n1\n2\n" && len(resp.TransferEncoding) == 1, "stream")

	resp, err = client.Head(base + "/echo")
	check(err, "head")
	expect(resp.StatusCode == 200, "head status")

	req, _ = http.NewRequest("POST", base+"/refuse", bytes.NewReader(big))
	resp, err = client.Do(req)
	check(err, "refused upload")
	expect(resp.StatusCode == 403, "early refusal")
	resp.Body.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	req, _ = http.NewRequestWithContext(ctx, "GET", base+"/wait", nil)
	_, err = client.Do(req)
	expect(err != nil, "cancel")
	cancel()
	fmt.Println("ok")
}
