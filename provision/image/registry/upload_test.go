package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/registry/registrytest"
)

// uploads is a registry as the distribution-spec describes it: it keeps what it got of a
// chunk that was broken off. Debian's docker-registry forgets the upload then.
type uploads struct {
	mu       sync.Mutex
	uploads  map[string][]byte
	blobs    map[string][]byte
	asked    map[string]int // by method
	received int            // bytes of blobs
	whole    bool           // it accepts no chunks
	forgets  bool           // it knows no upload that was broken off
}

func (u *uploads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock() // what follows a break waits until its bytes are kept
	defer u.mu.Unlock()
	u.asked[r.Method]++
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	_, known := u.uploads[name]
	switch {
	case r.URL.Path == "/v2/":
	case strings.HasPrefix(name, "sha256:") && (r.Method == http.MethodHead || r.Method == http.MethodGet):
		if _, ok := u.blobs[name]; !ok {
			w.WriteHeader(http.StatusNotFound)
		}
	case r.Method == http.MethodPost:
		id := fmt.Sprint("u", len(u.uploads))
		u.uploads[id] = []byte{}
		w.Header().Set("Location", "/v2/a/b/blobs/uploads/"+id)
		w.WriteHeader(http.StatusAccepted)
	case strings.Contains(r.URL.Path, "/manifests/") && r.Method == http.MethodPut:
		w.WriteHeader(http.StatusCreated)
	case !known || u.forgets && r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPatch && u.whole && r.Header.Get("Content-Range") != "":
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	case r.Method == http.MethodPatch:
		from := r.Header.Get("Content-Range")
		if from != "" && !strings.HasPrefix(from, fmt.Sprintf("%d-", len(u.uploads[name]))) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		b, err := io.ReadAll(r.Body)
		u.uploads[name] = append(u.uploads[name], b...)
		if u.received += len(b); err != nil {
			return
		}
		fallthrough
	case r.Method == http.MethodGet:
		w.Header().Set("Location", r.URL.Path)
		w.Header().Set("Range", fmt.Sprintf("0-%d", max(len(u.uploads[name])-1, 0)))
		w.WriteHeader(map[string]int{http.MethodGet: http.StatusNoContent, http.MethodPatch: http.StatusAccepted}[r.Method])
	case r.Method == http.MethodPut:
		digest := r.URL.Query().Get("digest")
		if layout.Digest(u.uploads[name]).String() != digest {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		u.blobs[digest] = u.uploads[name]
		w.WriteHeader(http.StatusCreated)
	}
}

// cut breaks a connection off after some bytes of requests.
type cut struct{ left int }

var errCut = errors.New("the connection was broken off")

func (c *cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = cutBody{r.Body, c}
	}
	return http.DefaultTransport.RoundTrip(r)
}

type cutBody struct {
	io.ReadCloser
	c *cut
}

func (b cutBody) Read(p []byte) (int, error) {
	if b.c.left <= 0 {
		return 0, errCut
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.c.left)])
	b.c.left -= n
	return n, err
}

// chunked is a layout with one blob, and a client that sends it in chunks.
func chunked(t *testing.T) (in *layout.Layout, d v1.Descriptor, push func(host string, next http.RoundTripper) error) {
	t.Helper()
	content := make([]byte, 300_000)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	in, err := layout.Open(t.TempDir())
	if err == nil {
		d, err = in.PutBytes(content, "application/octet-stream")
	}
	if err != nil {
		t.Fatal(err)
	}
	return in, d, func(host string, next http.RoundTripper) error {
		c := &Client{Arch: runtime.GOARCH, Transport: next, Tries: 1, Chunk: 20_000, // a process of its own
			Wait: func(context.Context, time.Duration) error { return nil }}
		manifest := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",`+
			`"config":{"mediaType":"application/octet-stream","digest":"%s","size":%d},"layers":[]}`, d.Digest, d.Size)
		return c.PushArtifact(t.Context(), host, "a/b", "x", in, []v1.Descriptor{d}, []byte(manifest))
	}
}

// A push that is broken off at any byte continues there: no byte is sent twice.
func TestPushContinuesWithinABlob(t *testing.T) {
	u := &uploads{uploads: map[string][]byte{}, blobs: map[string][]byte{}, asked: map[string]int{}}
	server := httptest.NewServer(u)
	defer server.Close()
	in, d, push := chunked(t)
	rng := rand.New(rand.NewPCG(1, 2))
	breaks := 0
	for {
		err := push(server.Listener.Addr().String(), &cut{left: 5_000 + rng.IntN(20_000)})
		if err == nil {
			break
		}
		if breaks++; breaks > 100 || !strings.Contains(err.Error(), errCut.Error()) {
			t.Fatal(err)
		}
	}
	if breaks < 10 || u.received != int(d.Size) || u.asked[http.MethodPost] != 1 || len(u.blobs) != 1 {
		t.Errorf("after %d breaks: %d bytes of %d, %v", breaks, u.received, d.Size, u.asked)
	}
	if left, err := in.Partials(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A registry that accepts no chunks gets the blob as a whole, and one that has forgotten an
// upload gets it again.
func TestPushWithoutChunks(t *testing.T) {
	for name, u := range map[string]*uploads{"whole": {whole: true}, "forgets": {forgets: true}} {
		u.uploads, u.blobs, u.asked = map[string][]byte{}, map[string][]byte{}, map[string]int{}
		server := httptest.NewServer(u)
		defer server.Close()
		in, d, push := chunked(t)
		host := server.Listener.Addr().String()
		if err := push(host, &cut{left: 50_000}); err == nil {
			t.Fatal(name, " is not broken off")
		}
		if err := push(host, http.DefaultTransport); err != nil || len(u.blobs[d.Digest.String()]) != int(d.Size) {
			t.Errorf("%s: %v, %v", name, err, u.asked)
		}
		if left, err := in.Partials(); err != nil || len(left) > 0 {
			t.Errorf("%s left: %v, %v", name, left, err)
		}
	}
}

// between lets some chunks through, and counts their bytes.
type between struct{ left, sent int }

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		if b.left--; b.left < 0 {
			return nil, errCut
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		b.sent += len(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A real registry gets each chunk once, from several processes.
func TestPushContinuesInARealRegistry(t *testing.T) {
	server := registrytest.Start(t, false)
	_, d, push := chunked(t)
	sent, breaks := 0, 0
	for {
		b := &between{left: 2}
		err := push(server.Host, b)
		sent += b.sent
		if err == nil {
			break
		}
		if breaks++; breaks > 20 || !strings.Contains(err.Error(), errCut.Error()) {
			t.Fatal(err)
		}
	}
	if breaks < 5 || sent != int(d.Size) {
		t.Errorf("%d bytes of %d after %d breaks", sent, d.Size, breaks)
	}
	if info, err := os.Stat(server.Blob(d.Digest.String())); err != nil || info.Size() != d.Size {
		t.Errorf("%v, %v", info, err)
	}
}
