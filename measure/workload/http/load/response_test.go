package load

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	nethttp "net/http"
	"strings"
	"testing"
)

const okHead = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 5\r\n\r\n"

// readAll feeds stream in pieces cut at random and returns the responses'
// verdicts.
func readAll(t *testing.T, r *reader, stream []byte, rng *rand.Rand) (verdicts []string, err error) {
	t.Helper()
	for len(stream) > 0 {
		piece := stream[:1+rng.IntN(len(stream))]
		n, done, err := r.readBytes(piece)
		if err != nil {
			return verdicts, err
		}
		if !done && n != len(piece) {
			t.Fatalf("took %d of %d bytes without being done", n, len(piece))
		}
		stream = stream[n:]
		if done {
			verdicts = append(verdicts, r.verdict())
			r.reset()
		}
	}
	return verdicts, nil
}

func expecting(length int64, sum string) *expectation {
	a, err := newAsk(URL{Path: "/", Length: length, Sum: sum}, &load{host: "h", keepalive: true})
	if err != nil {
		panic(err)
	}
	return &expectation{ask: a}
}

func newReader(e *expectation) *reader {
	r := &reader{}
	r.body.expect = e
	return r
}

func TestResponsesInPieces(t *testing.T) {
	stream := okHead + "hello" +
		okHead + "hellO" +
		"HTTP/1.1 404 Not Found\r\ncontent-length:3\r\n\r\nno!" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nSum: 1\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell" +
		"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!" +
		"HTTP/1.1 204 No Content\r\n\r\n" +
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" +
		okHead + "hello"
	want := []string{"", "wrong body", "status 404", "", "short body", "wrong body", "short body", "status 304", ""}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		got, err := readAll(t, newReader(expecting(5, SumOf([]byte("hello")))), []byte(stream), rng)
		if err != nil || !equal(got, want) {
			t.Fatalf("seed %d: %q, %v; want %q", seed, got, err, want)
		}
	}
}

func equal(a, b []string) bool {
	return strings.Join(a, "|") == strings.Join(b, "|") && len(a) == len(b)
}

// Nothing may become the reference that does not have the stated sum, and a
// body that was begun before there was one is still compared.
func TestReference(t *testing.T) {
	e := expecting(5, SumOf([]byte("hello")))
	a, b := newReader(e), newReader(e)
	feed := func(r *reader, s string, done bool) {
		t.Helper()
		if n, d, err := r.readBytes([]byte(s)); n != len(s) || d != done || err != nil {
			t.Fatalf("%q: %d, %v, %v", s, n, d, err)
		}
	}
	feed(a, okHead+"jel", false)
	feed(b, okHead+"hello", true)
	if v := b.verdict(); v != "" {
		t.Errorf("the first right body: %q", v)
	}
	feed(a, "lo", true)
	if v := a.verdict(); v != "wrong body" {
		t.Errorf("a wrong body that was begun before: %q", v)
	}
	free := newReader(expecting(-1, ""))
	feed(free, okHead+"hello", true)
	if v := free.verdict(); v != "" || free.body.expect.known.Load().sum != SumOf([]byte("hello")) {
		t.Errorf("without a stated sum the first body is the reference: %q", v)
	}
}

func TestMalformed(t *testing.T) {
	for _, s := range []string{
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/2 200\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\nY: b\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nab",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", maxHead),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", maxLine),
	} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 2))
			if v, err := readAll(t, newReader(expecting(-1, "")), []byte(s), rng); err == nil {
				t.Errorf("%.80q was read as %q", s, v)
				break
			}
		}
	}
}

// What is read here is read by net/http in the same way.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(okHead+"hello"), uint64(1))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x, "+
		"close\r\n\r\n3;a\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n"), uint64(2))
	f.Add([]byte("HTTP/1.1 404 \r\nContent-Length: 2\r\n\r\nno"), uint64(3))
	f.Add([]byte("HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n"), uint64(4))
	f.Add([]byte("HTTP/1.1 304 No\r\nTransfer-Encoding: chunked\r\n\r\n"), uint64(5))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		agrees(t, stream, rand.New(rand.NewPCG(seed, 3)))
	})
}

// agrees reads one response from stream twice, at once and in pieces, and, if
// it is one, a third time by net/http.
func agrees(t *testing.T, stream []byte, rng *rand.Rand) {
	t.Helper()
	whole, n, done, err := readOne(stream, nil)
	cut, n2, done2, err2 := readOne(stream, rng)
	if done != done2 || (err != nil) != (err2 != nil) || done &&
		(n != n2 || whole.head != cut.head || !bytes.Equal(whole.body.got, cut.body.got)) {
		t.Fatalf("at once: %+v %d %v %v; in pieces: %+v %d %v %v", whole.head, n, done, err, cut.head, n2, done2, err2)
	}
	if !done {
		return
	}
	theirs, err := nethttp.ReadResponse(bufio.NewReader(bytes.NewReader(stream[:n])), nil)
	if err != nil {
		t.Fatalf("net/http refuses it: %v", err)
	}
	body, err := io.ReadAll(theirs.Body)
	if err != nil {
		t.Fatalf("net/http refuses the body: %v", err)
	}
	if theirs.StatusCode != whole.head.status || theirs.Close != whole.head.close {
		t.Fatalf("net/http reads status %d, close %v; we %+v", theirs.StatusCode, theirs.Close, whole.head)
	}
	if whole.head.status < 300 && !bytes.Equal(body, whole.body.got) {
		t.Fatalf("net/http reads body %q; we %q", body, whole.body.got)
	}
}

// readOne reads the first response of stream, at once or cut by rng, keeping
// its body.
func readOne(stream []byte, rng *rand.Rand) (r *reader, n int, done bool, err error) {
	r = newReader(expecting(-1, ""))
	for n < len(stream) && !done && err == nil {
		piece := stream[n:]
		if rng != nil {
			piece = piece[:1+rng.IntN(min(len(piece), 40))]
		}
		var k int
		k, done, err = r.readBytes(piece)
		n += k
	}
	return r, n, done, err
}

// Well-formed responses, of every shape that is read, are read alike here
// and by net/http.
func TestAgreesWithNetHTTP(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		stream := wellFormed(rng)
		if _, n, done, err := readOne(stream, nil); !done || err != nil || n != len(stream) {
			t.Fatalf("%.200q: read %d of %d bytes, %v, %v", stream, n, len(stream), done, err)
		}
		agrees(t, append(stream, "HTTP/1.1 200"...), rng)
	}
}

func wellFormed(rng *rand.Rand) []byte {
	var b bytes.Buffer
	body := make([]byte, rng.IntN(3000))
	for i := range body {
		body[i] = byte(rng.IntN(256))
	}
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", []int{200, 201, 206, 301, 404, 500}[rng.IntN(6)],
		[]string{"", "OK", "Not so good"}[rng.IntN(3)])
	for i := range rng.IntN(5) {
		fmt.Fprintf(&b, "X-%d:%s%s \r\n", i, strings.Repeat(" ", rng.IntN(3)), strings.Repeat("v", rng.IntN(300)))
	}
	if rng.IntN(3) == 0 {
		fmt.Fprintf(&b, "Connection: %s\r\n", []string{"close", "keep-alive", "upgrade , Close", "closed"}[rng.IntN(4)])
	}
	if rng.IntN(2) == 0 {
		fmt.Fprintf(&b, "%s: %d\r\n\r\n%s", []string{"Content-Length", "content-length", "CONTENT-LENGTH"}[rng.IntN(3)],
			len(body), body)
		return b.Bytes()
	}
	b.WriteString("Transfer-Encoding: Chunked\r\n\r\n")
	for len(body) > 0 {
		n := 1 + rng.IntN(len(body))
		fmt.Fprintf(&b, "%x%s\r\n%s\r\n", n, []string{"", ";a=b", "; q=\"s\""}[rng.IntN(3)], body[:n])
		body = body[n:]
	}
	b.WriteString([]string{"0\r\n\r\n", "000;end\r\n\r\n", "0\r\nA: b\r\nC: d\r\n\r\n"}[rng.IntN(3)])
	return b.Bytes()
}
