package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"bakeoff/base/atomicfile"
	"bakeoff/base/bounded"
	"bakeoff/base/fault"
	"bakeoff/provision/image/layout"
)

// chunkBytes is how much of a blob one request sends. After a break, what earlier requests
// sent need not be sent again. Larger blobs have larger chunks: each costs a round trip.
const (
	chunkBytes = 1 << 20
	mostChunks = 64
)

// maxLocation bounds the address of an upload, in bytes.
const maxLocation = 16 << 10

// upload is the upload of a blob in chunks, as the distribution-spec describes it.
type upload struct {
	*session
	v1.Descriptor
	blob string // file
	kept string // file with the address of the upload, for a later process
	size int64  // of a chunk
}

// pushBlob sends a blob that the registry lacks. If it was broken off before, in this process
// or another, it continues with what the registry does not have yet.
func (s *session) pushBlob(ctx context.Context, d v1.Descriptor, from *layout.Layout) error {
	u := upload{session: s, Descriptor: d, blob: from.Blob(d.Digest), size: cmp.Or(s.Chunk, chunkBytes),
		kept: from.PartialPath("upload to " + s.host + "/" + s.repository + "@" + d.Digest.String())}
	whole := d.Size <= u.size
	return s.retry(ctx, func() (gain bool, err error) {
		l, err := s.logIn(ctx)
		if err != nil {
			return false, err
		}
		if !whole {
			gain, err = u.send(ctx, l)
			if whole = errors.Is(err, errNoChunks); !whole {
				return gain, err
			}
			if err := u.forget(); err != nil {
				return false, err
			}
		}
		return false, remote.WriteLayer(l.repository, file{d, u.blob}, l.remoteOptions(ctx)...)
	})
}

// errNoChunks says that a registry does not accept chunks.
var errNoChunks = errors.New("the registry accepts no chunks")

// errForgotten says that a registry does not know an upload any more.
var errForgotten = errors.New("the registry lost the uploaded part of a blob")

// send sends what the registry does not have yet. gain says that it has more now.
func (u upload) send(ctx context.Context, l *login) (gain bool, err error) {
	base := fmt.Sprintf("%s://%s/v2/%s/blobs/", l.repository.Scheme(), l.repository.RegistryStr(),
		l.repository.RepositoryStr())
	if _, err := u.do(ctx, l, http.MethodHead, base+u.Digest.String(), nil, http.StatusOK); err == nil {
		return true, u.forget()
	}
	at, done := u.continued(ctx, l)
	if at == "" {
		resp, err := u.do(ctx, l, http.MethodPost, base+"uploads/", nil, http.StatusAccepted)
		if err != nil {
			return false, err
		}
		at = location(resp)
		least, _ := strconv.ParseInt(resp.Header.Get("OCI-Chunk-Min-Length"), 10, 64) // 0: none
		u.size = max(u.size, least)
		if err := u.keep(at); err != nil {
			return false, err
		}
	}
	began := done
	u.size = max(u.size, u.Size/mostChunks)
	for done < u.Size {
		resp, err := u.chunk(ctx, l, at, done)
		if refused, ok := errors.AsType[*transport.Error](err); ok && refused.StatusCode < http.StatusInternalServerError &&
			refused.StatusCode != http.StatusTooManyRequests || ok && refused.StatusCode == http.StatusNotImplemented {
			if done == 0 {
				return false, errNoChunks
			}
			return done > began, errors.Join(errForgotten, u.forget())
		}
		if err != nil {
			return done > began, err
		}
		at = location(resp)
		if done, err = received(resp, done+min(u.size, u.Size-done)); err != nil || done > u.Size {
			return false, errors.Join(errForgotten, u.forget())
		}
		if err := u.keep(at); err != nil {
			return done > began, err
		}
	}
	end, err := url.Parse(at)
	if err != nil {
		return false, errNoChunks
	}
	query := end.Query()
	query.Set("digest", u.Digest.String())
	end.RawQuery = query.Encode()
	if _, err := u.do(ctx, l, http.MethodPut, end.String(), nil, http.StatusCreated); err != nil {
		if began > 0 && isFinal(err) {
			err = errForgotten // what it had was damaged
		}
		return false, errors.Join(err, u.forget())
	}
	return true, u.forget()
}

// continued returns the address of an upload that was broken off, and how many bytes the
// registry has of it; "" if there is none.
func (u upload) continued(ctx context.Context, l *login) (at string, done int64) {
	text, err := bounded.ReadFile(u.kept, maxLocation)
	if err != nil {
		return "", 0
	}
	resp, err := u.do(ctx, l, http.MethodGet, string(text), nil, http.StatusNoContent)
	if err != nil {
		return "", 0
	}
	done, err = received(resp, -1)
	if at = location(resp); err != nil || done < 0 || done > u.Size || at == "" {
		return "", 0
	}
	return at, done
}

// keep writes down the address of the upload. It may permit anybody to write.
func (u upload) keep(at string) error {
	if at == "" || len(at) > maxLocation {
		return errNoChunks
	}
	return fault.Wrap(fault.Lab, "push", atomicfile.Write(u.kept, []byte(at), 0o600))
}

func (u upload) forget() error {
	if err := os.Remove(u.kept); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(fault.Lab, "push", err)
	}
	return nil
}

// chunk sends one chunk.
func (u upload) chunk(ctx context.Context, l *login, at string, from int64) (*http.Response, error) {
	f, err := os.Open(u.blob)
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "push", err)
	}
	defer f.Close()
	n := min(u.size, u.Size-from)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stall, func() { cancel(fmt.Errorf("the registry accepted nothing for %s", stall)) })
	defer timer.Stop()
	resp, err := u.do(ctx, l, http.MethodPatch, at, func(r *http.Request) {
		r.Body = io.NopCloser(&lively{in: io.NewSectionReader(f, from, n), timer: timer})
		r.ContentLength = n
		r.Header.Set("Content-Type", "application/octet-stream")
		r.Header.Set("Content-Range", fmt.Sprintf("%d-%d", from, from+n-1))
	}, http.StatusAccepted)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return resp, err
}

// do makes a request, and drops the body of the answer. Errors of the registry are of type
// *transport.Error.
func (u upload) do(ctx context.Context, l *login, method, at string, change func(*http.Request),
	want int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(req)
	}
	resp, err := (&http.Client{Transport: l.transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return resp, transport.CheckError(resp, want)
}

// location is the address in an answer at which an upload continues; "" if it has none.
func location(resp *http.Response) string {
	at, err := resp.Location() // relative to the request
	if err != nil {
		return ""
	}
	return at.String()
}

// received reads how many bytes a registry has: bytes 0 to the one in the header Range. An
// answer without it means all that were sent.
func received(resp *http.Response, sent int64) (int64, error) {
	text := resp.Header.Get("Range")
	if text == "" {
		return sent, nil
	}
	end, ok := strings.CutPrefix(strings.TrimPrefix(text, "bytes="), "0-")
	n, err := strconv.ParseInt(end, 10, 64)
	if !ok || err != nil || n < 0 {
		return 0, fault.New(fault.Invalid, "the registry reports a wrong range of an upload: %.40q", text)
	}
	if n == 0 { // docker-registry says so of an empty upload
		return 0, nil
	}
	return n + 1, nil
}
