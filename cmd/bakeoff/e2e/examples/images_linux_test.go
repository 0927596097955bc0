package examples

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/lab/dryrun"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/provision/image"
	"bakeoff/provision/image/registry/registrytest"
)

// front is in front of a registry. It counts the bytes of blobs, and can stop in the
// middle of a large one.
type front struct {
	Host  string
	Close func() // ends it, and the registry with it

	mu     sync.Mutex
	stop   int64 // bytes after which a large blob stops; 0: it does not
	served map[string]int64
}

// large is the size above which a blob stops.
const large = 1 << 20

func frontOf(t *testing.T, r *registrytest.Server) *front {
	t.Helper()
	f := &front{served: map[string]int64{}}
	s := httptest.NewUnstartedServer(nil)
	s.Config.Handler = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: r.Host})
	}}
	next := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if _, digest, ok := strings.Cut(q.URL.Path, "/blobs/"); ok {
			w = &counting{ResponseWriter: w, f: f, digest: digest, done: q.Context().Done()}
		}
		next.ServeHTTP(w, q)
	})
	s.Start()
	t.Cleanup(s.Close)
	f.Close = func() { s.Close(); r.Kill() }
	f.Host = strings.TrimPrefix(s.URL, "http://")
	return f
}

// of is how many bytes of a blob were served since the last call.
func (f *front) of(digest string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.served[digest]
	delete(f.served, digest)
	return n
}

func (f *front) stopAfter(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = n
}

// counting counts what is written for a blob.
type counting struct {
	http.ResponseWriter
	f      *front
	digest string
	done   <-chan struct{}
}

func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counting) Write(b []byte) (int, error) {
	c.f.mu.Lock()
	stop := c.f.stop > 0 && c.f.served[c.digest] >= c.f.stop
	c.f.mu.Unlock()
	if stop {
		<-c.done // the client is gone
		return 0, http.ErrAbortHandler
	}
	n, err := c.ResponseWriter.Write(b)
	c.f.mu.Lock()
	c.f.served[c.digest] += int64(n)
	c.f.mu.Unlock()
	return n, err
}

// noise is data that gzip does not make smaller.
func noise(seed uint64, n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return string(b)
}

// pulledLab writes a lab with an image of a registry and a folder beside the lab file.
func pulledLab(t *testing.T, h e2e.Home, ref string) string {
	t.Helper()
	dir := filepath.Join(h.Dir, "lab")
	if err := os.MkdirAll(filepath.Join(dir, "tree", "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `schema: bakeoff/lab/v1
name: pulled
contenders:
  - {name: tree, driver: chroot, image: "rootfs:tree"}
  - {name: pulled, driver: chroot, image: "` + ref + `"}
baseline: tree
cells: [{name: sha, workload: crypto, params: {block: 16KiB, time: 10ms}, primary: true}]
design: {looks: [2], alphas: [0.05]}
`
	if err := os.WriteFile(filepath.Join(dir, "bakeoff.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// planned is what plan says of a lab.
func planned(t *testing.T, h e2e.Home, lab string) dryrun.View {
	t.Helper()
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "plan", lab, "--json")
	var v dryrun.View
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("plan: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	return v
}

// A run that is killed while it downloads an image goes on where it was. It has the
// image that the tag named when the run was planned, although the tag has moved.
func TestAKilledPull(t *testing.T) {
	e2e.NeedsRoot(t)
	r := registrytest.Start(t, false)
	f := frontOf(t, r)
	h := e2e.New(t)
	cache := filepath.Join(h.Dir, "cache")
	h.Env = append(h.Env, "BAKEOFF_CACHE="+cache)
	one := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"etc/one": noise(1, 3*large)}))
	two := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"etc/two": "two"}))
	layer, size := registrytest.Digest(one.Layers[0]), int64(len(one.Layers[0]))
	r.Push("app", "1", one)
	lab := pulledLab(t, h, f.Host+"/app:1")

	v := planned(t, h, lab)
	if len(v.Images) != 2 || v.Images[1].Digest != one.Digest() || v.Images[1].Download != size+int64(len(one.Config)) {
		t.Errorf("plan: %+v", v.Images)
	}
	f.stopAfter(large)
	run := h.Command("run", lab, "--seed", "3")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(cache, "image/oci/partial", strings.TrimPrefix(layer, "sha256:"))
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if info, err := os.Stat(part); err == nil && info.Size() >= large {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the download did not begin")
		}
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // it was killed
	info, err := os.Stat(part)
	if err != nil {
		t.Fatal(err)
	}
	if n := f.of(layer); n < info.Size() {
		t.Errorf("%d bytes are there, and %d were served", info.Size(), n)
	}
	out, _, _ := h.Bakeoff(t, 3*time.Minute, "clean", "--dry-run")
	if !strings.Contains(out, part) {
		t.Errorf("clean does not find the download:\n%s", out)
	}
	if out, _, _ = h.Bakeoff(t, 3*time.Minute, "cache", "prune", "--dry-run", "--json"); !strings.Contains(out, part) {
		t.Errorf("cache prune does not find the download:\n%s", out)
	}

	// The tag moves. The run does not.
	f.stopAfter(0)
	r.Push("app", "1", two)
	folders, err := filepath.Glob(filepath.Join(h.Dir, "runs", "*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("%v, %v", folders, err)
	}
	out, errs, code := h.Bakeoff(t, 3*time.Minute, "run", "--resume", folders[0])
	if code != 0 {
		t.Fatalf("resume: exit code %d\n%s%s", code, out, errs)
	}
	if n := f.of(layer); n != size-info.Size() {
		t.Errorf("%d bytes were served after the kill, want %d", n, size-info.Size())
	}
	if n := f.of(registrytest.Digest(two.Layers[0])); n != 0 {
		t.Errorf("%d bytes of the image that the tag names now were served", n)
	}
	held(t, h, folders[0], f.Host+"/app:1", one.Digest())
	if v := planned(t, h, lab); v.Images[1].Digest != two.Digest() {
		t.Errorf("a new plan: %+v", v.Images)
	}
	h.LeavesNothing(t)

	// Without the registry, verify and plan do what they can.
	f.Close()
	h.Holds(t, folders[0])
	if out, errs, _ := h.Bakeoff(t, 3*time.Minute, "plan", lab); !strings.Contains(out, "nothing is downloaded") ||
		!strings.Contains(strings.Join(strings.Fields(out), " "), one.Digest()+" from the cache") {
		t.Errorf("plan without the registry:\n%s%s", out, errs)
	}
	if out, errs, code := h.Bakeoff(t, 3*time.Minute, "cache", "clear", "--yes"); code != 0 {
		t.Errorf("cache clear: exit code %d\n%s%s", code, out, errs)
	}
	out, errs, code = h.Bakeoff(t, 3*time.Minute, "plan", lab)
	if code == 0 || !strings.Contains(errs, "bakeoff.yaml:5:") ||
		!strings.Contains(errs, "check the name and the network") {
		t.Errorf("plan without the registry and the cache: exit code %d\n%s%s", code, out, errs)
	}
}

// held asserts that a run has an image, and that its page says so.
func held(t *testing.T, h e2e.Home, folder, ref, digest string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, store.PlanFile))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := p.Contender("pulled")
	if c.Pinned == nil || c.Pinned.Reference != ref || c.Pinned.Digest != digest {
		t.Errorf("the plan has %+v", c.Pinned)
	}
	print, err := os.ReadFile(filepath.Join(folder, store.FingerprintDir, "pulled.json"))
	if err != nil || !strings.Contains(string(print), digest) {
		t.Errorf("%v, %s", err, print)
	}
	page, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(store.ReportFile)))
	if err != nil || !strings.Contains(string(page), ref+", pinned to "+digest) {
		t.Errorf("the page does not name the image (%v)", err)
	}
	h.Holds(t, folder)
}

// The example compares two images of a registry, and the image is the factor.
func TestExampleImages(t *testing.T) {
	e2e.NeedsRoot(t)
	for _, program := range []string{"gcc", "musl-gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs gcc and musl-gcc: apt-get install gcc libc6-dev musl-tools")
		}
	}
	r := registrytest.Start(t, false)
	h := e2e.New(t)
	for _, name := range []string{"bakeoff.yaml", "build.sh", "libc.c"} {
		text, err := os.ReadFile("../../../../examples/images/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(h.Dir, name), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("sh", filepath.Join(h.Dir, "build.sh")).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	digest := map[string]string{}
	for _, libc := range []string{"glibc", "musl"} {
		text, err := os.ReadFile(filepath.Join(h.Dir, "build", libc+".tar"))
		if err != nil {
			t.Fatal(err)
		}
		i := registrytest.Build(t, nil, text)
		r.Push("bakeoff/libc", libc, i)
		digest[libc] = i.Digest()
	}
	h.Env = append(h.Env, "BAKEOFF_CACHE="+filepath.Join(h.Dir, "cache"),
		"BAKEOFF_REGISTRY_MIRRORS=localhost:5000=http://"+r.Host)
	ran, code := h.Example(t, h.Dir, "--profile", "ci", "--seed", "3")
	if code != 0 || ran.Blocks == 0 || len(ran.Missing) > 0 {
		t.Fatalf("exit code %d, %d blocks, missing %v", code, ran.Blocks, ran.Missing)
	}
	for _, c := range ran.Comparisons {
		if len(c.Factors) != 1 || c.Factors[0].Name != "image" ||
			c.Factors[0].Contender != "localhost:5000/bakeoff/libc:musl" {
			t.Errorf("%s: factors %v", c.Contender, c.Factors)
		}
	}
	sums := map[string]float64{}
	for _, s := range ran.Summaries {
		if s.Metric != "cost" {
			continue
		}
		if was, ok := sums[s.Cell]; ok && s.Median != nil && was != *s.Median {
			t.Errorf("%s: %s prints %v, another contender %v", s.Cell, s.Contender, *s.Median, was)
		}
		if s.Median != nil {
			sums[s.Cell] = *s.Median
		}
	}
	if len(sums) != 4 {
		t.Errorf("checksums %v", sums)
	}
	for libc, want := range digest {
		print, err := os.ReadFile(filepath.Join(h.Dir, ran.Folder, store.FingerprintDir, libc+".json"))
		if err != nil || !strings.Contains(string(print), want) {
			t.Errorf("%s: %v, %s", libc, err, print)
		}
	}
	h.Holds(t, filepath.Join(h.Dir, ran.Folder))
	h.LeavesNothing(t)
}

// Two runs that need an image at the same time download it once.
func TestTwoRunsPullOnce(t *testing.T) {
	e2e.NeedsRoot(t)
	r := registrytest.Start(t, false)
	f := frontOf(t, r)
	a := e2e.New(t)
	one := registrytest.Build(t, nil, registrytest.Tar(t, map[string]string{"etc/one": noise(2, 3*large)}))
	r.Push("app", "1", one)
	var runs []*exec.Cmd
	for _, h := range []e2e.Home{a, e2e.New(t)} {
		h.Env = append(h.Env, "BAKEOFF_CACHE="+filepath.Join(a.Dir, "cache"))
		c := h.Command("run", pulledLab(t, h, f.Host+"/app:1"), "--seed", "3")
		var said strings.Builder
		c.Stdout, c.Stderr = &said, &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, c)
	}
	for _, c := range runs {
		if err := c.Wait(); err != nil {
			t.Errorf("%v\n%s", err, c.Stdout)
		}
	}
	if n, want := f.of(registrytest.Digest(one.Layers[0])), int64(len(one.Layers[0])); n != want {
		t.Errorf("%d bytes were served, want %d", n, want)
	}
	left, err := (&image.Store{Dir: filepath.Join(a.Dir, "cache/image")}).Entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if e.State != image.Complete {
			t.Errorf("%+v", e)
		}
	}
}
