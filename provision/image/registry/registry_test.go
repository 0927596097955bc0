package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry/registrytest"
)

// noise is a file that cannot be compressed.
func noise(n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b) // never fails
	return string(b)
}

func parse(t *testing.T, text string) reference.Reference {
	t.Helper()
	r, err := reference.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func cache(t *testing.T) *layout.Layout {
	t.Helper()
	l, err := layout.Open(filepath.Join(t.TempDir(), "oci"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// recorder notes the requests for blobs, and lets a test act when bytes arrive.
type recorder struct {
	mu     sync.Mutex
	ranges []string // of the requests for blobs
	bytes  int64
	read   func(bytes int64)
	next   http.RoundTripper
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	next := r.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(req)
	if strings.Contains(req.URL.Path, "/blobs/") {
		r.mu.Lock()
		r.ranges = append(r.ranges, req.Header.Get("Range"))
		r.mu.Unlock()
		if err == nil {
			resp.Body = &body{resp.Body, r}
		}
	}
	return resp, err
}

type body struct {
	io.ReadCloser
	r *recorder
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.r.bytes += int64(n)
	if b.r.read != nil {
		b.r.read(b.r.bytes)
	}
	return n, err
}

func client(r http.RoundTripper) *Client {
	return &Client{Arch: runtime.GOARCH, Transport: r, Wait: func(context.Context, time.Duration) error { return nil }}
}

// complete tells whether the layout has an image with all its blobs, and nothing else.
func complete(t *testing.T, l *layout.Layout, name string) {
	t.Helper()
	d, ok, err := l.Find(name)
	if err != nil || !ok {
		t.Fatalf("%s is not there: %v", name, err)
	}
	blobs, err := l.Blobs(layout.Image{Manifest: d})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		if !l.Has(b) {
			t.Errorf("blob %s is not there", b.Digest)
		}
	}
	partial, err := l.Partials()
	unused, uerr := l.Unused()
	if err != nil || uerr != nil || len(partial)+len(unused) > 0 {
		t.Errorf("left: %v, %v, %v, %v", partial, unused, err, uerr)
	}
}

func TestPull(t *testing.T) {
	s := registrytest.Start(t, false)
	base := registrytest.Tar(t, map[string]string{"bin/sh": "base"})
	one := registrytest.Build(t, nil, base, registrytest.Tar(t, map[string]string{"f": "1"}))
	two := registrytest.Build(t, nil, base, registrytest.Tar(t, map[string]string{"f": "2"}))
	s.Push("team/app", "1", one)
	s.Push("team/app", "2", two)
	l, r := cache(t), &recorder{}
	c := client(r)
	var done, all int64
	c.Progress = func(d, a int64) { done, all = d, a }
	ref := parse(t, s.Host+"/team/app:1")
	d, err := c.Pull(t.Context(), ref, l)
	if err != nil || d.Digest.String() != one.Digest() {
		t.Fatalf("%v, %v; want %s", d, err, one.Digest())
	}
	complete(t, l, ref.String())
	if done != all || all < 100 {
		t.Errorf("progress ended at %d of %d", done, all)
	}
	if n := len(r.ranges); n != 3 {
		t.Errorf("%d requests for 3 blobs", n)
	}
	if d, b, err := c.Resolve(t.Context(), ref); err != nil || d.Digest.String() != one.Digest() ||
		string(b) != string(one.Manifest) {
		t.Errorf("Resolve: %v, %v", d, err)
	}

	// The second image shares a layer with the first.
	pinned := parse(t, s.Host+"/team/app@"+two.Digest())
	if d, err := c.Pull(t.Context(), pinned, l); err != nil || d.Digest.String() != two.Digest() {
		t.Fatalf("%v, %v", d, err)
	}
	if n := len(r.ranges); n != 5 {
		t.Errorf("%d requests for 5 blobs", n)
	}
	complete(t, l, pinned.String())
	if _, err := c.Pull(t.Context(), ref, l); err != nil || len(r.ranges) != 5 {
		t.Errorf("an image that is there: %v, %d requests", err, len(r.ranges))
	}

	// An index names images for several platforms.
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[`+
		`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":%d,`+
		`"platform":{"os":"linux","architecture":%q}}]}`,
		two.Digest(), len(two.Manifest), runtime.GOARCH)
	s.PushManifest("team/app", "all", "application/vnd.oci.image.index.v1+json", []byte(index))
	if d, _, err := c.Resolve(t.Context(), parse(t, s.Host+"/team/app:all")); err != nil ||
		d.Digest.String() != two.Digest() {
		t.Errorf("an index: %v, %v", d, err)
	}
	c.Arch = "pdp11"
	if _, _, err := c.Resolve(t.Context(), parse(t, s.Host+"/team/app:all")); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "linux/"+runtime.GOARCH) {
		t.Errorf("another architecture: %v", err)
	}
	for _, name := range []string{"/team/app:3", "/team/other:1"} {
		if _, err := c.Pull(t.Context(), parse(t, s.Host+name), l); !fault.Is(err, fault.NotFound) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A registry that is killed in the middle of a pull and comes back does not cost the
// bytes that are there: neither in the same run nor in a later one.
func TestARegistryIsKilled(t *testing.T) {
	s := registrytest.Start(t, false)
	const size = 48 << 20
	image := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": noise(size)}))
	s.Push("big", "1", image)
	ref := parse(t, s.Host+"/big:1")

	for name, again := range map[string]bool{"in the same run": true, "in a later run": false} {
		t.Run(name, func(t *testing.T) {
			l, killed := cache(t), false
			r := &recorder{next: &http.Transport{}}
			r.read = func(n int64) {
				if n > size/3 && !killed {
					killed = true
					s.Kill()
				}
			}
			c := client(r)
			c.Wait = func(context.Context, time.Duration) error {
				if !again {
					return errors.New("interrupted")
				}
				if killed && len(r.ranges) > 0 {
					s.Run()
				}
				return nil
			}
			_, err := c.Pull(t.Context(), ref, l)
			if again != (err == nil) {
				t.Fatalf("%v", err)
			}
			if !again {
				if _, ok, err := l.Find(ref.String()); ok || err != nil {
					t.Errorf("half an image has a name: %v", err)
				}
				s.Run()
				c = client(r)
				if _, err := c.Pull(t.Context(), ref, l); err != nil {
					t.Fatal(err)
				}
			}
			complete(t, l, ref.String())
			if !killed || !slices.ContainsFunc(r.ranges,
				func(s string) bool { return strings.HasPrefix(s, "bytes=") && s != "bytes=0-" }) {
				t.Errorf("killed: %v; ranges: %q", killed, r.ranges)
			}
			if r.bytes > size+size/100 {
				t.Errorf("%d bytes were downloaded for %d", r.bytes, size)
			}
		})
	}
}

func TestATamperedLayerIsRefused(t *testing.T) {
	s := registrytest.Start(t, false)
	image := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": noise(1 << 20)}))
	s.Push("app", "1", image)
	file := s.Blob(registrytest.Digest(image.Layers[0]))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	l, ref := cache(t), parse(t, s.Host+"/app:1")
	_, err = client(nil).Pull(t.Context(), ref, l)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), registrytest.Digest(image.Layers[0])+
		" was changed") {
		t.Errorf("%v", err)
	}
	if _, ok, err := l.Find(ref.String()); ok || err != nil {
		t.Errorf("the image has a name: %v", err)
	}
	// The download of the configuration may have been interrupted, and is continued later.
	partial, err := l.Partials()
	_, name, _ := strings.Cut(registrytest.Digest(image.Layers[0]), ":")
	if err != nil || slices.ContainsFunc(partial, func(p string) bool { return filepath.Base(p) == name }) {
		t.Errorf("left: %v, %v", partial, err)
	}
	// The registry is repaired.
	b[len(b)/2] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client(nil).Pull(t.Context(), ref, l); err != nil {
		t.Fatal(err)
	}
	complete(t, l, ref.String())
}

// Bytes of an earlier run that were damaged on the disk are downloaded again.
func TestDamagedBytesOfAnEarlierRun(t *testing.T) {
	s := registrytest.Start(t, false)
	image := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": noise(1 << 20)}))
	s.Push("app", "1", image)
	l := cache(t)
	sum := strings.TrimPrefix(registrytest.Digest(image.Layers[0]), "sha256:")
	if err := os.WriteFile(filepath.Join(l.Dir, "partial", sum), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	if _, err := client(r).Pull(t.Context(), parse(t, s.Host+"/app:1"), l); err != nil {
		t.Fatal(err)
	}
	complete(t, l, s.Host+"/app:1")
	if !slices.Contains(r.ranges, "bytes=7-") {
		t.Errorf("ranges: %q", r.ranges)
	}
}

func TestCredentials(t *testing.T) {
	s := registrytest.Start(t, true)
	s.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "x"})))
	ref := parse(t, s.Host+"/app:1")
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	pull := func() error {
		_, err := client(nil).Pull(t.Context(), ref, cache(t))
		return err
	}
	for name, config := range map[string]string{
		"none": `{}`, "wrong": fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, s.Host, encoded("user:wrong")),
	} {
		write(config)
		if err := pull(); !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), "docker login "+s.Host) ||
			strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, s.Host, encoded(s.User+":"+s.Password)))
	if err := pull(); err != nil {
		t.Errorf("in the file: %v", err)
	}
	helper := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = get ] && echo '{\"ServerURL\":\"x\",\"Username\":%q,\"Secret\":%q}'\n",
		s.User,
		s.Password)
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	write(fmt.Sprintf(`{"credHelpers":{%q:"test"}}`, s.Host))
	if err := pull(); err != nil {
		t.Errorf("of a helper: %v", err)
	}
}

func TestMirrors(t *testing.T) {
	s := registrytest.Start(t, false)
	image := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "x"}))
	s.Push("hub/library/app", "1", image)
	s.Push("app", "1", image)
	c := client(nil)
	var err error
	if c.Settings, err = SettingsOf(func(name string) string {
		return map[string]string{VarMirrors: "docker.io=http://" + s.Host + "/hub, 127.0.0.1:1=http://" + s.Host}[name]
	}); err != nil {
		t.Fatal(err)
	}
	l := cache(t)
	for _, name := range []string{"app:1", "127.0.0.1:1/app:1"} {
		ref := parse(t, name)
		if d, err := c.Pull(t.Context(), ref, l); err != nil || d.Digest.String() != image.Digest() {
			t.Errorf("%s: %v, %v", name, d, err)
		}
		if _, ok, err := l.Find(ref.String()); err != nil || !ok {
			t.Errorf("the image has not the name %s: %v", ref, err)
		}
	}
	// A mirror that does not answer, or has no such image, is left out.
	var said []string
	c.Say = func(line string) { said = append(said, line) }
	c.Mirrors = []Mirror{{Of: s.Host, Host: "127.0.0.1:1"}, {Of: s.Host, Host: s.Host, Prefix: "none"}}
	if _, err := c.Pull(t.Context(), parse(t, s.Host+"/app:1"), cache(t)); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "the mirror 127.0.0.1:1 does not give") {
		t.Errorf("said: %s", text)
	}
}

// The error of a wrong name has the answer of the mirror, also if the registry itself
// cannot be reached.
func TestAMirrorThatLacksAnImage(t *testing.T) {
	s := registrytest.Start(t, false)
	c := client(nil)
	c.Mirrors = []Mirror{{Of: "127.0.0.1:1", Host: s.Host}}
	_, err := c.Pull(t.Context(), parse(t, "127.0.0.1:1/alpin:3.20"), cache(t))
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "the mirror "+s.Host+" has no such image") ||
		!strings.Contains(err.Error(), "registry 127.0.0.1:1") || !strings.Contains(fault.Fix(err), "check the name") {
		t.Errorf("%v", err)
	}
}

// A registry whose name does not exist is asked once.
func TestARegistryWithoutAnAddress(t *testing.T) {
	asked := 0
	c := client(&http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		asked++
		return nil, &net.DNSError{Err: "no such host", Name: "registry.example", IsNotFound: true}
	}})
	_, err := c.Pull(t.Context(), parse(t, "registry.example/app:1"), cache(t))
	if !fault.Is(err, fault.Lab) || asked != 1 ||
		!strings.Contains(fault.Fix(err), "check the name and the network, or name a mirror in "+VarMirrors) {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// A failed push is not explained with downloads and mirrors.
func TestExplainAPush(t *testing.T) {
	s := &session{place: place{host: "registry.example"}, scope: transport.PushScope}
	for _, err := range []error{errors.New("connection refused"), &transport.Error{StatusCode: http.StatusTooManyRequests},
		&transport.Error{StatusCode: http.StatusBadGateway}} {
		fix := fault.Fix(s.explain(err))
		if fix == "" || strings.Contains(fix, "download") || strings.Contains(fix, VarMirrors) {
			t.Errorf("%v: %s", err, fix)
		}
	}
}

// Without TLS only a registry on this machine is asked, or one that a setting names.
func TestPlainHTTP(t *testing.T) {
	s := registrytest.Start(t, false)
	s.Push("app", "1", registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": "x"})))
	c := client(&http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Host)
	}})
	for _, host := range []string{"registry.example:5000", "10.0.0.1:5000", "registry.local"} {
		ref := parse(t, host+"/app:1")
		if _, err := c.Pull(t.Context(), ref, cache(t)); err == nil {
			t.Errorf("%s was asked without TLS", host)
		}
		c.Plain = []string{host}
		if _, err := c.Pull(t.Context(), ref, cache(t)); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		c.Plain = nil
	}
}

func TestSettings(t *testing.T) {
	s, err := SettingsOf(func(name string) string {
		return map[string]string{VarMirrors: "docker.io=https://m.example:5000/hub/, ghcr.io=http://10.0.0.1",
			VarPlain: "r.example:5000"}[name]
	})
	want := Settings{Mirrors: []Mirror{{Of: "docker.io", Host: "m.example:5000", Prefix: "hub"},
		{Of: "ghcr.io", Host: "10.0.0.1", Plain: true}}, Plain: []string{"r.example:5000"}}
	if err != nil || fmt.Sprint(s) != fmt.Sprint(want) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, host := range []string{"localhost", "localhost:5000", "127.0.0.1:1", "[::1]:5000",
		"10.0.0.1", "r.example:5000"} {
		if !s.allowsHTTP(host) {
			t.Errorf("%s needs TLS", host)
		}
	}
	for _, host := range []string{"r.example", "m.example:5000", "10.0.0.2", "192.168.0.1:5000", "localhost.example"} {
		if s.allowsHTTP(host) {
			t.Errorf("%s needs no TLS", host)
		}
	}
	for name, bad := range map[string]string{VarMirrors: "docker.io", VarPlain: "http://x"} {
		if _, err := SettingsOf(func(n string) string {
			if n == name {
				return bad
			}
			return ""
		}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), name) || fault.Fix(err) == "" {
			t.Errorf("%s=%s: %v", name, bad, err)
		}
	}
}

// fake is a registry with one image, whose handler for the layer a test replaces.
func fake(t *testing.T, layer func(w http.ResponseWriter, r *http.Request, b []byte)) (host string,
	image registrytest.Image) {
	t.Helper()
	image = registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"f": noise(1 << 20)}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v2/":
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = w.Write(image.Manifest)
		case strings.HasSuffix(r.URL.Path, registrytest.Digest(image.Config)):
			_, _ = w.Write(image.Config)
		default:
			layer(w, r, image.Layers[0])
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), image
}

// Whatever a registry answers to a request for the rest of a blob, the blob is right or
// the pull fails after a bounded number of tries.
func TestOddRegistries(t *testing.T) {
	half := func(w http.ResponseWriter, b []byte) { // breaks off
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		_, _ = w.Write(b[:len(b)/2])
	}
	for name, c := range map[string]struct {
		layer func(n int, w http.ResponseWriter, r *http.Request, b []byte)
		kind  fault.Kind
		want  string // of the error
		most  int    // tries
	}{
		"no ranges": {func(n int, w http.ResponseWriter, _ *http.Request, b []byte) {
			if n == 1 {
				half(w, b)
				return
			}
			_, _ = w.Write(b)
		}, 0, "", 2},
		"another range": {func(n int, w http.ResponseWriter, r *http.Request, b []byte) {
			switch {
			case n == 1:
				half(w, b)
			case r.Header.Get("Range") != "":
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(b)-1, len(b)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(b)
			default:
				_, _ = w.Write(b)
			}
		}, 0, "", 3},
		"busy": {func(n int, w http.ResponseWriter, _ *http.Request, b []byte) {
			if n <= 3 {
				w.WriteHeader([]int{0, 500, 503, 429}[n])
				return
			}
			_, _ = w.Write(b)
		}, 0, "", 4},
		"always busy": {func(_ int, w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(503) },
			fault.Lab, "answers 503", tries},
		"gone": {func(_ int, w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(404) },
			fault.NotFound, "no such image", 1},
		"too long": {func(_ int, w http.ResponseWriter, _ *http.Request, b []byte) {
			_, _ = w.Write(append(slices.Clone(b), 0))
		},
			fault.Invalid, "has more than the expected", 1},
		"always nothing": {func(_ int, w http.ResponseWriter, _ *http.Request, b []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			panic(http.ErrAbortHandler)
		}, fault.Lab, "what was downloaded is kept", 2 * tries}, // net/http repeats a request on a kept connection
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			n := 0
			host, _ := fake(t, func(w http.ResponseWriter, r *http.Request, b []byte) {
				mu.Lock()
				n++
				at := n
				mu.Unlock()
				c.layer(at, w, r, b)
			})
			l := cache(t)
			_, err := client(nil).Pull(t.Context(), parse(t, host+"/app:1"), l)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				complete(t, l, host+"/app:1")
			} else if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if n > c.most {
				t.Errorf("%d tries, and %d are enough", n, c.most)
			}
		})
	}
}

func TestAManifestThatIsAnother(t *testing.T) {
	host, image := fake(t, nil)
	other := registrytest.Digest([]byte("other"))
	if _, _, err := client(nil).Resolve(t.Context(), parse(t, host+"/app@"+other)); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), image.Digest()) {
		t.Errorf("%v", err)
	}
}
