package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// Push sends an image of a layout to the registry of a reference, which has a tag. It
// sends only the blobs that the registry lacks, and at last the manifest. Mirrors are not
// asked.
func (c *Client) Push(ctx context.Context, r reference.Reference, from *layout.Layout, d v1.Descriptor) error {
	if r.Kind != reference.Registry || r.Tag == "" || r.Digest != "" {
		return fault.WithFix(fault.New(fault.Invalid, "%s does not name a place in a registry", yamltree.Show(r.Text)),
			"write HOST/NAME:TAG, such as localhost:5000/app:1")
	}
	manifest, err := from.Read(d)
	if err != nil {
		return err
	}
	m, err := layout.ParseManifest(manifest)
	if err != nil {
		return err
	}
	blobs := append([]v1.Descriptor{m.Config}, m.Layers...)
	s := &session{Client: c, place: place{host: r.Host, repository: r.Repository}, scope: transport.PushScope}
	p := newProgress(c.Progress, blobs)
	seen := map[v1.Hash]bool{}
	for _, b := range blobs {
		if seen[b.Digest] {
			continue
		}
		seen[b.Digest] = true
		if err := s.sendBlob(ctx, from, b, p); err != nil {
			return fault.Op("push "+r.String(), fault.Op("blob "+b.Digest.String(), err))
		}
	}
	kind := string(m.MediaType)
	if kind == "" {
		kind = string(types.OCIManifestSchema1)
	}
	err = s.again(ctx, func() (bool, error) {
		body := io.NopCloser(strings.NewReader(string(manifest)))
		resp, err := s.send(ctx, http.MethodPut, "manifests/"+r.Tag, http.Header{"Content-Type": {kind}}, body,
			int64(len(manifest)), http.StatusCreated, http.StatusOK, http.StatusAccepted)
		if err != nil {
			return false, err
		}
		return true, resp.Body.Close()
	})
	return fault.Op("push "+r.String(), err)
}

// sendBlob sends a blob that the registry lacks.
func (s *session) sendBlob(ctx context.Context, from *layout.Layout, d v1.Descriptor, p *progress) error {
	return s.again(ctx, func() (bool, error) {
		resp, err := s.send(ctx, http.MethodHead, "blobs/"+d.Digest.String(), nil, nil, 0, http.StatusOK, http.StatusNotFound)
		if err != nil {
			return false, err
		}
		if err := resp.Body.Close(); err != nil {
			return false, err
		}
		if resp.StatusCode == http.StatusOK {
			p.add(d.Size)
			return true, nil
		}
		resp, err = s.send(ctx, http.MethodPost, "blobs/uploads/", nil, nil, 0, http.StatusAccepted)
		if err != nil {
			return false, err
		}
		at, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return false, fault.Op("the place that the registry named", err)
		}
		query := at.Query()
		query.Set("digest", d.Digest.String())
		at.RawQuery = query.Encode()
		f, err := os.Open(from.Blob(d.Digest))
		if err != nil {
			return false, fault.Op("image cache", err)
		}
		sent := &uploaded{f, p, 0}
		resp, err = s.send(ctx, http.MethodPut, at.String(), http.Header{"Content-Type": {"application/octet-stream"}},
			sent, d.Size, http.StatusCreated)
		if err != nil {
			p.add(-sent.n)
			return false, err
		}
		return true, resp.Body.Close()
	})
}

// uploaded reports the bytes that are sent.
type uploaded struct {
	*os.File
	p *progress
	n int64
}

func (u *uploaded) Read(b []byte) (int, error) {
	n, err := u.File.Read(b)
	u.n += int64(n)
	u.p.add(int64(n))
	return n, err
}

// WriteTo hides that of the file, which would not report.
func (u *uploaded) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{u}) }

// send makes a request for something in the repository, or with a whole address.
func (s *session) send(ctx context.Context, method, what string, h http.Header, body io.ReadCloser, size int64,
	codes ...int) (*http.Response, error) {
	client, base, err := s.login(ctx)
	if err != nil {
		return nil, errors.Join(err, closeBody(body))
	}
	if !strings.Contains(what, "://") {
		what = base + what
	}
	req, err := http.NewRequestWithContext(ctx, method, what, nil)
	if err != nil {
		return nil, errors.Join(err, closeBody(body))
	}
	if h != nil {
		req.Header = h
	}
	if body != nil {
		req.Body, req.ContentLength = body, size
		if size == 0 {
			req.Body = http.NoBody
			err = body.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, codes...); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

func closeBody(b io.Closer) error {
	if f, ok := b.(io.ReadCloser); ok && f != nil {
		return f.Close()
	}
	return nil
}

// maxPages and maxNames bound the lists of a registry.
const (
	maxPages = 100
	maxNames = 100_000
)

// Tags lists the tags of a repository, in the order of the registry.
func (c *Client) Tags(ctx context.Context, host, repository string) ([]string, error) {
	s := &session{Client: c, place: place{host: host, repository: repository}}
	return s.list(ctx, "tags/list", ParseTags)
}

// Repositories lists the repositories of a registry. Many public registries refuse to
// tell.
func (c *Client) Repositories(ctx context.Context, host string) ([]string, error) {
	s := &session{Client: c, place: place{host: host, repository: "catalog"}, scope: "registry:catalog:*"}
	_, base, err := s.login(ctx)
	if err != nil {
		return nil, explain(err, host)
	}
	base, _, _ = strings.Cut(base, "/v2/")
	all, err := s.list(ctx, base+"/v2/_catalog", ParseCatalog)
	if err != nil {
		return nil, fault.WithFix(err, "add a source for one repository, with --add NAME=HOST/REPOSITORY --type registry")
	}
	return all, nil
}

// list reads the pages of a list.
func (s *session) list(ctx context.Context, what string, parse func([]byte) ([]string, error)) ([]string, error) {
	var out []string
	for range maxPages {
		next := ""
		err := s.again(ctx, func() (bool, error) {
			resp, err := s.send(ctx, http.MethodGet, what, nil, nil, 0, http.StatusOK)
			if err != nil {
				return false, err
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(io.LimitReader(resp.Body, layout.MaxDocument+1))
			if err != nil {
				return false, err
			}
			names, err := parse(b)
			if err != nil {
				return false, err
			}
			out, next = append(out, names...), nextPage(resp.Request.URL, resp.Header.Get("Link"))
			return true, nil
		})
		switch {
		case err != nil:
			return nil, err
		case len(out) > maxNames:
			return nil, fault.New(fault.Invalid, "registry %s lists more than %d names", s.host, maxNames)
		case next == "":
			return out, nil
		}
		what = next
	}
	return nil, fault.New(fault.Invalid, "registry %s sends a list of more than %d pages", s.host, maxPages)
}

// nextPage is the address of the next page in a Link header (RFC 8288), on the same
// host; "" if there is none.
func nextPage(at *url.URL, link string) string {
	target, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(link), "<"), ">")
	if !ok || !strings.Contains(rest, `rel="next"`) {
		return ""
	}
	next, err := at.Parse(target)
	if err != nil || next.Host != at.Host || next.Scheme != at.Scheme {
		return ""
	}
	return next.String()
}

// The forms of names in the distribution-spec.
var (
	tagForm        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	repositoryForm = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
)

// ParseTags reads a page of the tags of a repository (distribution-spec, "Listing Tags").
// Errors are of kind fault.Invalid.
func ParseTags(b []byte) ([]string, error) {
	var page struct {
		Tags []any `json:"tags"`
	}
	if err := parsePage(b, &page); err != nil {
		return nil, err
	}
	return namesIn(page.Tags, tagForm), nil
}

// ParseCatalog reads a page of the repositories of a registry. Errors are of kind
// fault.Invalid.
func ParseCatalog(b []byte) ([]string, error) {
	var page struct {
		Repositories []any `json:"repositories"`
	}
	if err := parsePage(b, &page); err != nil {
		return nil, err
	}
	return namesIn(page.Repositories, repositoryForm), nil
}

// namesIn returns the entries of a list that have a form. The others name nothing that
// could be asked for.
func namesIn(all []any, form *regexp.Regexp) (out []string) {
	for _, one := range all {
		if name, ok := one.(string); ok && form.MatchString(name) {
			out = append(out, name)
		}
	}
	return out
}

func parsePage(b []byte, into any) error {
	if len(b) > layout.MaxDocument {
		return fault.New(fault.Invalid, "the list has more than %d bytes", layout.MaxDocument)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fault.New(fault.Invalid, "the list is damaged: %w", err)
	}
	return nil
}
