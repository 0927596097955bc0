package archive_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
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

// Transfers that are broken off at any byte continue, and give the bundle with its signature.
func TestTransfersAreBrokenOff(t *testing.T) {
	server := registrytest.Start(t, false)
	at := server.Host + "/team/runs"
	private, signers := archive.MakeKey(t, "ann@example.org")
	from := create(t, archive.Config{Key: private})
	to := create(t, archive.Config{Signers: signers, RequireSignature: true})
	digest := add(t, from, quick)
	rng := rand.New(rand.NewPCG(1, 2))
	within := func(do func(*registry.Client) error) (times int) {
		for {
			c := client()
			// Debian's registry forgets a blob that breaks within a chunk, so there is more each time.
			b := &breaking{left: rng.IntN(20_000) + times*5_000}
			c.Transport, c.Tries, c.Chunk = b, 1, 8_000
			err := do(c)
			if err == nil {
				return times
			}
			if times++; times > 200 || b.left > 0 {
				t.Fatalf("after %d times: %v", times, err)
			}
		}
	}
	pushes := within(func(c *registry.Client) error {
		_, err := from.Push(t.Context(), c, digest, at)
		return err
	})
	pulls := within(func(c *registry.Client) error {
		_, _, err := to.Pull(t.Context(), c, at+"@"+digest)
		return err
	})
	if pushes < 20 || pulls < 3 {
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
