// Package registry pulls images from registries (distribution-spec) into a layout.
//
// Credentials are those of ~/.docker/config.json and its helpers, as for docker and
// podman. A blob whose download ends early is continued where it ended, by a later
// request or by a later run. Every byte is verified against the digest by which it was
// asked for.
package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/sleep"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// Client pulls images.
type Client struct {
	Settings
	// Arch is the architecture of the images, as Go names it.
	Arch string
	// Keychain has the credentials; nil is those of docker and podman.
	Keychain authn.Keychain
	// Transport makes the requests; nil is the default one, with the proxies of the
	// environment.
	Transport http.RoundTripper
	// Progress receives how many bytes of the image are there, and how many it has, at
	// most ten times per second; nil discards.
	Progress func(done, all int64)
	// Say receives a line for a person; nil discards.
	Say func(string)
	// Tries is how often a request is made that gives nothing; 0 is six.
	Tries int
	// Chunk is how many bytes of a blob of an artifact one request sends at least; 0 is 1 MiB.
	Chunk int64
	// Wait waits between two tries; nil waits for the time.
	Wait func(ctx context.Context, d time.Duration) error
}

// tries is how often a request is made that gives nothing. A download that gives bytes
// begins to count again.
const tries = 6

// stall is how long a server may send nothing.
const stall = 60 * time.Second

// parallel is how many blobs are downloaded at the same time.
const parallel = 3

// Resolve returns the manifest of the image for Client.Arch. It asks the mirrors of the
// registry first. Errors: fault.NotFound if there is no such image, fault.Unsupported if
// there is none for the architecture or the registry needs credentials.
func (c *Client) Resolve(ctx context.Context, r reference.Reference) (v1.Descriptor, []byte, error) {
	var d v1.Descriptor
	var b []byte
	err := c.anywhere(ctx, r, func(s *session) (err error) {
		d, b, err = s.getManifest(ctx, r)
		return err
	})
	return d, b, err
}

// Pull brings an image into a layout and gives it the name of the reference. It
// downloads only what the layout lacks.
func (c *Client) Pull(ctx context.Context, r reference.Reference, into *layout.Layout) (v1.Descriptor, error) {
	return c.PullAs(ctx, r, r.String(), into)
}

// PullAs is Pull with another name in the layout.
func (c *Client) PullAs(ctx context.Context, r reference.Reference, name string,
	into *layout.Layout) (v1.Descriptor, error) {
	var d v1.Descriptor
	err := c.anywhere(ctx, r, func(s *session) (err error) {
		d, err = s.pullImage(ctx, r, name, into)
		return err
	})
	return d, err
}

// anywhere calls do with each place until one has the image.
func (c *Client) anywhere(ctx context.Context, r reference.Reference, do func(*session) error) error {
	var err error
	var lacking []string // mirrors that answered that they have no such image
	for _, p := range c.places(r) {
		s := &session{Client: c, place: p}
		if err = do(s); err == nil || ctx.Err() != nil || !p.mirror {
			break
		}
		if fault.Is(err, fault.NotFound) {
			lacking = append(lacking, p.host)
		}
		c.reportProgress("the mirror %s does not give %s: %s", p.host, r, safetext.Line(err.Error()))
	}
	if len(lacking) > 0 && fault.Is(err, fault.Lab) {
		err = fault.Op("the mirror "+strings.Join(lacking, ", ")+" has no such image, and the registry does not answer", err)
	}
	return fault.Op("image "+r.String(), err)
}

func (c *Client) reportProgress(format string, args ...any) {
	if c.Say != nil {
		c.Say(fmt.Sprintf(format, args...))
	}
}

// session is what pulls from one registry.
type session struct {
	*Client
	place
	scope string // of the token; "" is the right to pull

	mu    sync.Mutex
	login *login // nil before the first request
}

// getManifest asks for the manifest of an image, by way of the index if there is one.
func (s *session) getManifest(ctx context.Context, r reference.Reference) (v1.Descriptor, []byte, error) {
	which := cmp.Or(r.Digest, r.Tag)
	d, b, err := s.getDocument(ctx, which)
	if err != nil {
		return d, nil, err
	}
	for range 3 { // an index may name an index
		if !d.MediaType.IsIndex() {
			_, err := layout.ParseManifest(b)
			return d, b, err
		}
		index, err := layout.ParseIndex(b)
		if err != nil {
			return d, nil, err
		}
		of, err := layout.For(index, s.Arch)
		if err != nil {
			return d, nil, err
		}
		if d, b, err = s.getDocument(ctx, of.Digest.String()); err != nil {
			return d, nil, err
		}
	}
	return d, nil, fault.New(fault.Invalid, "the index names only other indexes")
}

// getDocument asks for a manifest or an index by its tag or digest.
func (s *session) getDocument(ctx context.Context, which string) (v1.Descriptor, []byte, error) {
	var d *remote.Descriptor
	err := s.retry(ctx, func() (bool, error) {
		l, err := s.logIn(ctx)
		if err == nil { // a digest is checked below, with an error that has a kind
			d, err = remote.Get(l.repository.Tag(which), l.remoteOptions(ctx)...)
		}
		return err == nil, err
	})
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	kind, _, _ := strings.Cut(string(d.MediaType), ";")
	out := v1.Descriptor{MediaType: types.MediaType(strings.TrimSpace(kind)), Size: int64(len(d.Manifest)),
		Digest: layout.Digest(d.Manifest)}
	if strings.HasPrefix(which, "sha256:") && out.Digest.String() != which {
		return out, nil, fault.New(fault.Invalid, "the registry sent another manifest than %s: its digest is %s", which,
			out.Digest)
	}
	return out, d.Manifest, nil
}

// pullImage brings an image into a layout.
func (s *session) pullImage(ctx context.Context, r reference.Reference, name string,
	into *layout.Layout) (v1.Descriptor, error) {
	d, b, err := s.getManifest(ctx, r)
	if err != nil {
		return d, err
	}
	m, err := layout.ParseManifest(b)
	if err != nil {
		return d, err
	}
	p := newProgress(s.Progress, append(m.Layers, m.Config))
	if err := s.pullBlobs(ctx, append([]v1.Descriptor{m.Config}, m.Layers...), into, p); err != nil {
		return d, err
	}
	if d, err = into.PutBytes(b, d.MediaType); err != nil {
		return d, err
	}
	return d, into.Name(name, d)
}

// pullBlobs downloads several blobs at the same time.
func (s *session) pullBlobs(ctx context.Context, all []v1.Descriptor, into *layout.Layout, p *progress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	seen := map[v1.Hash]bool{}
	for _, d := range all {
		if seen[d.Digest] {
			continue
		}
		seen[d.Digest] = true
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.pullBlob(ctx, d, into, p); err != nil {
				cancel(fault.Op("blob "+d.Digest.String(), err)) // the first one counts
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// pullBlob downloads a blob that the layout lacks.
func (s *session) pullBlob(ctx context.Context, d v1.Descriptor, into *layout.Layout, p *progress) (err error) {
	if into.Has(d) {
		p.countPresent(d.Size)
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	part, err := into.Begin(d)
	if err != nil {
		return err
	}
	kept := part.Size()
	p.add(kept)
	if err := s.fillBlob(ctx, d, part, p); err != nil {
		return errors.Join(err, part.Keep())
	}
	err = part.Commit()
	if err == nil || kept == 0 || !fault.Is(err, fault.Invalid) {
		return err
	}
	// The bytes of an earlier run may have been damaged on the disk.
	p.add(-d.Size)
	if part, err = into.Begin(d); err != nil {
		return err
	}
	if err := s.fillBlob(ctx, d, part, p); err != nil {
		return errors.Join(err, part.Keep())
	}
	return part.Commit()
}

// fillBlob downloads the bytes that a blob lacks.
func (s *session) fillBlob(ctx context.Context, d v1.Descriptor, part *layout.Partial, p *progress) error {
	return s.retry(ctx, func() (bool, error) {
		from := part.Size()
		if from == d.Size {
			return true, nil
		}
		h := http.Header{"Accept-Encoding": {"identity"}}
		if from > 0 {
			h.Set("Range", fmt.Sprintf("bytes=%d-", from))
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		resp, err := s.getBlob(ctx, d.Digest, h)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		whole := resp.StatusCode == http.StatusOK
		if from > 0 && (whole || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from))) {
			if err := part.Restart(); err != nil {
				return false, err
			}
			p.add(-from)
			if from = 0; !whole {
				return true, errAgain // the registry sent another range of bytes than requested
			}
		}
		_, err = io.Copy(&counted{part, p}, &lively{in: resp.Body, timer: time.AfterFunc(stall, func() {
			cancel(fmt.Errorf("the registry sent nothing for %s", stall))
		})})
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		if err == nil && part.Size() < d.Size {
			err = io.ErrUnexpectedEOF
		}
		return part.Size() > from, err
	})
}

// errAgain asks for another try.
var errAgain = errors.New("the registry sent another range of bytes than requested")

// lively restarts a timer whenever bytes arrive.
type lively struct {
	in    io.Reader
	timer *time.Timer
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	if err != nil {
		l.timer.Stop()
	} else {
		l.timer.Reset(stall)
	}
	return n, err
}

// counted reports the bytes that are written.
type counted struct {
	to io.Writer
	p  *progress
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.p.add(int64(n))
	return n, err
}

// retry calls do until it succeeds, at most tries times in a row without a gain. It
// gives up at once if another try cannot help.
func (s *session) retry(ctx context.Context, do func() (gain bool, err error)) error {
	tries := cmp.Or(s.Tries, tries)
	for left := tries; ; {
		gain, err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isFinal(err):
			return s.explain(err)
		}
		if left--; gain {
			left = tries
		}
		if left <= 0 || s.mirror && !gain {
			return s.explain(err)
		}
		pause := 500 * time.Millisecond << (tries - 1 - min(left, tries-1))
		s.reportProgress("%s: %s; trying again in %s", s.host, safetext.Line(err.Error()), pause)
		if err := s.pause(ctx, pause); err != nil {
			return err
		}
	}
}

func (s *session) pause(ctx context.Context, d time.Duration) error {
	if s.Wait != nil {
		return s.Wait(ctx, d)
	}
	if sleep.For(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// isFinal tells whether an error is the same after another try: a refusal, a wrong name,
// missing credentials, a full disk, a registry whose host has no address.
func isFinal(err error) bool {
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return true
	}
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.StatusCode >= 400 && e.StatusCode < 500 && e.StatusCode != http.StatusTooManyRequests &&
			e.StatusCode != http.StatusRequestTimeout
	}
	_, classified := errors.AsType[*fault.Error](err)
	_, damaged := errors.AsType[*json.UnmarshalTypeError](err)
	return classified || damaged
}

// explain gives the error of a registry a kind and a remedy.
func (s *session) explain(err error) error {
	host, kept, mirror := s.host, "what was downloaded is kept", ", or name a mirror in "+VarMirrors
	if s.scope == transport.PushScope {
		kept, mirror = "it sends only the layers that the registry lacks", ""
	}
	e, ok := errors.AsType[*transport.Error](err)
	if !ok {
		if _, classified := errors.AsType[*fault.Error](err); classified {
			return err
		}
		if _, damaged := errors.AsType[*json.UnmarshalTypeError](err); damaged {
			return fault.New(fault.Invalid, "registry %s sent a damaged answer: %s", host, safetext.Line(err.Error()))
		}
		return fault.WithFix(fault.New(fault.Lab, "registry %s: %s", host, safetext.Line(err.Error())),
			"check the name and the network"+mirror+", and run the command again: "+kept)
	}
	said := safetext.Line(e.Error())
	if len(e.Errors) > 0 {
		said = safetext.Line(e.Errors[0].Message)
	}
	switch e.StatusCode {
	case http.StatusNotFound:
		return fault.WithFix(fault.New(fault.NotFound, "registry %s has no such image: %s", host, said),
			"check the name and the tag")
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.WithFix(fault.New(fault.Unsupported, "registry %s denies access: %s", host, said),
			"check the name, or run docker login "+host)
	case http.StatusTooManyRequests:
		return fault.WithFix(fault.New(fault.Lab, "registry %s limits requests: %s", host, said),
			"wait, or run docker login "+host+mirror)
	}
	return fault.WithFix(fault.New(fault.Lab, "registry %s answers %d: %s", host, e.StatusCode, said),
		"run the command again: "+kept)
}

// getBlob makes a request for a blob. Errors of the registry are of type
// *transport.Error.
func (s *session) getBlob(ctx context.Context, digest v1.Hash, h http.Header) (*http.Response, error) {
	l, err := s.logIn(ctx)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", l.repository.Scheme(), l.repository.RegistryStr(),
		l.repository.RepositoryStr(), digest)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = h
	resp, err := (&http.Client{Transport: l.transport}).Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK, http.StatusPartialContent); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

// login is how a registry wants to be asked.
type login struct {
	repository name.Repository
	transport  http.RoundTripper // with credentials
}

// remoteOptions returns the options of the library. The session tries again, not the library.
func (l *login) remoteOptions(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(l.transport),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1})}
}

// logIn asks the registry how it wants to be asked, once.
func (s *session) logIn(ctx context.Context) (*login, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.login != nil {
		return s.login, nil
	}
	var options []name.Option
	if s.allowsHTTP(s.host) {
		options = append(options, name.Insecure)
	}
	host, err := name.NewRegistry(s.host, options...)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "registry "+s.host, err)
	}
	repo := host.Repo(s.repository)
	keys := s.Keychain
	if keys == nil {
		keys = authn.DefaultKeychain
	}
	auth, err := authn.Resolve(ctx, keys, repo)
	if err != nil {
		return nil, fault.WithFix(fault.Wrap(fault.Unsupported, "credentials for "+s.host, err),
			"check ~/.docker/config.json and its helpers")
	}
	next := s.Transport
	if next == nil {
		next = defaultTransport
	}
	scope := repo.Scope(cmp.Or(s.scope, transport.PullScope))
	if strings.Contains(s.scope, ":") {
		scope = s.scope
	}
	t, err := transport.NewWithContext(ctx, repo.Registry, auth, limited{guarded{s.Settings, next}}, []string{scope})
	if err != nil {
		return nil, err
	}
	s.login = &login{repo, t}
	return s.login, nil
}

// defaultTransport is that of net/http, with a bound on how long an answer takes.
var defaultTransport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 20 * time.Second}).DialContext
	t.ResponseHeaderTimeout = stall
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = parallel
	return t
}()

// progress adds up the bytes of several downloads.
type progress struct {
	mu   sync.Mutex
	to   func(done, all int64)
	done int64
	all  int64
	last time.Time
}

func newProgress(to func(done, all int64), blobs []v1.Descriptor) *progress {
	p := &progress{to: to}
	for _, b := range blobs {
		p.all += b.Size
	}
	return p
}

// countPresent counts bytes that were there before, and reports nothing.
func (p *progress) countPresent(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

func (p *progress) add(n int64) {
	if p.to == nil || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if now := time.Now(); p.done >= p.all || now.Sub(p.last) > 100*time.Millisecond {
		p.last = now
		p.to(p.done, p.all)
	}
}
