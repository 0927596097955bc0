package archive_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/archive"
	"bakeoff/provision/image/registry"
	"bakeoff/provision/image/registry/registrytest"
)

func client() *registry.Client {
	return &registry.Client{Arch: runtime.GOARCH, Wait: func(context.Context, time.Duration) error { return nil }}
}

func TestPushPull(t *testing.T) {
	server := registrytest.Start(t, false)
	private, signers := archive.MakeKey(t, "ann@example.org")
	at := server.Host + "/team/runs"
	from := create(t, archive.Config{Registry: at, Key: private, Signers: signers})
	first, second := add(t, from, quick), add(t, from, failures)
	for _, d := range []string{first, second, first} {
		if ref, err := from.Push(t.Context(), client(), d, ""); err != nil || ref != at+"@"+d {
			t.Fatalf("%s, %v", ref, err)
		}
	}
	if who, err := from.SignedBy(t.Context(), first); err != nil || !slices.Equal(who, []string{"ann@example.org"}) {
		t.Errorf("signed by %v, %v", who, err)
	}

	to := create(t, archive.Config{Registry: at, Signers: signers, RequireSignature: true})
	if d, isNew, err := to.Pull(t.Context(), client(), at+"@"+first); err != nil || !isNew || d != first {
		t.Fatalf("%s, %v, %v", d, isNew, err)
	}
	if d, isNew, err := to.Pull(t.Context(), client(), at+"@"+first); err != nil || isNew || d != first {
		t.Errorf("again: %s, %v, %v", d, isNew, err)
	}
	refs, err := to.Remote(t.Context(), client(), "")
	if err != nil || len(refs) != 1 {
		t.Fatalf("%v, %v", refs, err)
	}
	if d, isNew, err := to.Pull(t.Context(), client(), refs[0]); err != nil || !isNew || d != second {
		t.Errorf("by its tag: %s, %v, %v", d, isNew, err)
	}
	holds(t, to, 2)
	if who, err := to.SignedBy(t.Context(), second); err != nil || !slices.Equal(who, []string{"ann@example.org"}) {
		t.Errorf("signed by %v, %v", who, err)
	}
	if files, _, err := to.Leftovers(); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}

	// Somebody else signed it, or nobody whom this store knows.
	_, others := archive.MakeKey(t, "bob@example.org")
	strict := create(t, archive.Config{Signers: others, RequireSignature: true})
	if _, _, err := strict.Pull(t.Context(), client(), at+"@"+first); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "signed the bundle") {
		t.Errorf("%v", err)
	}
	holds(t, strict, 0)
	if _, err := strict.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if files, _, err := strict.Leftovers(); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	for _, ref := range []string{at + ":nothing", server.Host + "/other:x", at + "@sha256:" + strings.Repeat("0", 64)} {
		if _, _, err := to.Pull(t.Context(), client(), ref); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// breaking breaks connections off after some bytes of a request or an answer.
type breaking struct{ left int }

func (b *breaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = broken{r.Body, b}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		resp.Body = broken{resp.Body, b}
	}
	return resp, err
}

type broken struct {
	io.ReadCloser
	b *breaking
}

var errBroken = errors.New("the connection was broken off")

func (b broken) Read(p []byte) (int, error) {
	if b.b.left <= 0 {
		return 0, errBroken
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.b.left)])
	b.b.left -= n
	return n, err
}

// Transfers that are broken off at any byte, at least 20 times each, continue, and give the
// bundle with its signature.
func TestTransfersAreBrokenOff(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	private, signers := archive.MakeKey(t, "ann@example.org")
	from := create(t, archive.Config{Key: private})
	to := create(t, archive.Config{Signers: signers, RequireSignature: true})
	digest := add(t, from, quick)
	m, _, err := from.Manifest(digest)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	// within returns how often a transfer was broken off: the first times after less than first
	// bytes, and each time more bytes later.
	within := func(first, more int, do func(*registry.Client) error) (times int) {
		for {
			c := client()
			b := &breaking{left: rng.IntN(first) + times*more}
			c.Transport, c.Tries, c.Chunk = b, 1, 8_000
			err := do(c)
			if err == nil {
				return times
			}
			// The registry may still be reading what was broken off when the next transfer asks for it.
			forgotten := strings.Contains(err.Error(), "the registry lost the uploaded part of a blob")
			if times++; times > 200 || b.left > 0 && !forgotten {
				t.Fatalf("after %d times: %v", times, err)
			}
		}
	}
	// Debian's registry forgets a blob that breaks within a chunk, so there is more each time.
	pushes := within(20_000, 5_000, func(c *registry.Client) error {
		_, err := from.Push(t.Context(), c, digest, at)
		return err
	})
	pulls := within(int(m.Bytes())/30, 100, func(c *registry.Client) error {
		_, _, err := to.Pull(t.Context(), c, at+"@"+digest)
		return err
	})
	t.Logf("a bundle of %d bytes was broken off %d times when it was pushed, and %d times when it was pulled", m.Bytes(),
		pushes, pulls)
	if pushes < 20 || pulls < 20 {
		t.Errorf("broken off %d and %d times: the test broke too little", pushes, pulls)
	}
	if who, err := to.SignedBy(t.Context(), digest); err != nil || !slices.Equal(who, []string{"ann@example.org"}) {
		t.Errorf("signed by %v, %v", who, err)
	}
	holds(t, to, 1)
	if files, _, err := to.Leftovers(); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// A registry that is lost, with all of its data, costs no run, and neither does an index that is
// lost at the same time: the bundles are in the store.
func TestALostRegistryCostsNothing(t *testing.T) {
	lost := registrytest.Start(t, false)
	private, signers := archive.MakeKey(t, "ann@example.org")
	from := create(t, archive.Config{Registry: lost.Host + "/team/runs", Key: private, Signers: signers})
	digests := []string{add(t, from, quick), add(t, from, failures)}
	push := func(to string) (err error) {
		for _, d := range digests {
			_, e := from.Push(t.Context(), client(), d, to)
			err = errors.Join(err, e)
		}
		return err
	}
	if err := push(""); err != nil {
		t.Fatal(err)
	}
	const all = "SELECT name, contender, cell, metric, verdict, ratio FROM comparisons ORDER BY 1, 2, 3, 4"
	before := rows(t, from.Index, all)
	lost.Kill()
	if err := os.RemoveAll(lost.Data); err != nil {
		t.Fatal(err)
	}
	if err := push(""); err == nil {
		t.Error("a registry that is gone accepted bundles")
	}
	holds(t, from, 2)

	// The index is lost, too.
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(from.Dir, "index.sqlite*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if from, err = archive.OpenToRebuild(t.Context(), from.Dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	if n, err := from.Rebuild(t.Context(), nil); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	holds(t, from, 2)

	// Another registry gets the bundles, and so does the first when it is back without its data.
	other := registrytest.Start(t, false)
	lost.Run()
	for _, at := range []string{other.Host + "/team/runs", lost.Host + "/team/runs"} {
		if err := push(at); err != nil {
			t.Fatal(err)
		}
		to := create(t, archive.Config{Signers: signers, RequireSignature: true})
		for _, d := range digests {
			if _, isNew, err := to.Pull(t.Context(), client(), at+"@"+d); err != nil || !isNew {
				t.Errorf("%v, %v", isNew, err)
			}
		}
		holds(t, to, 2)
		after := rows(t, to.Index, all)
		if len(after) == 0 || !slices.EqualFunc(before, after, slices.Equal[[]any]) {
			t.Errorf("before:\n%v\nafter:\n%v", before, after)
		}
	}
}

// A registry refuses who may not use it, and the error names no password.
func TestTheRegistryRefusesStrangers(t *testing.T) {
	server := registrytest.Start(t, true)
	at := server.Host + "/team/runs"
	home := t.TempDir()
	for _, name := range []string{"DOCKER_CONFIG", "HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, home)
	}
	logIn := func(password string) {
		t.Helper()
		text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, server.Host,
			base64.StdEncoding.EncodeToString([]byte(server.User+":"+password)))
		if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from, to := create(t, archive.Config{}), create(t, archive.Config{})
	digest := add(t, from, quick)
	transfers := map[string]func() error{
		"push": func() error { _, err := from.Push(t.Context(), client(), digest, at); return err },
		"pull": func() error { _, _, err := to.Pull(t.Context(), client(), at+"@"+digest); return err },
		"list": func() error { _, err := to.Remote(t.Context(), client(), at); return err },
	}
	const wrong = "hush-7d1f0c9e"
	for range 2 { // without a password, then with a wrong one
		for name, do := range transfers {
			if err := do(); !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), "docker login") ||
				strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v", name, err)
			}
		}
		logIn(wrong)
	}
	holds(t, to, 0)
	logIn(server.Password)
	for _, name := range []string{"push", "list", "pull"} {
		if err := transfers[name](); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, to, 1)
}

// A registry that sends other bytes is found out.
func TestATamperedBundleIsRefused(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	from := create(t, archive.Config{})
	digest := add(t, from, quick)
	if _, err := from.Push(t.Context(), client(), digest, at); err != nil {
		t.Fatal(err)
	}
	m, _, err := from.Manifest(digest)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Parts() {
		file := server.Blob(p.Digest)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		to := create(t, archive.Config{})
		if _, _, err := to.Pull(t.Context(), client(), at+"@"+digest); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", p.MediaType, err)
		}
		holds(t, to, 0)
		if err := os.WriteFile(file, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
