package source

import (
	"context"
	"crypto/md5"  //nolint:gosec // some servers have no other checksum
	"crypto/sha1" //nolint:gosec // IMGAPI has no other checksum
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/sleep"
	"bakeoff/provision/image/registry"
)

// Client asks servers.
type Client struct {
	// Registry asks registries. Its settings say which servers may be asked without TLS.
	Registry *registry.Client
	// Warn receives a warning; nil discards.
	Warn func(text string)
	// Count receives how many bytes of a file are there; nil discards.
	Count func(what string, done, all int64)
	// Wait waits between two tries; nil waits for the time.
	Wait func(ctx context.Context, d time.Duration) error
}

// tries is how often a request is made that gives nothing.
const tries = 4

// stall is how long a server may send nothing.
const stall = 60 * time.Second

// status is the answer of a failed request.
type status struct {
	code int
	url  string
}

func (s status) Error() string {
	return fmt.Sprintf("%s: the server answers %d %s", safetext.Line(s.url), s.code, http.StatusText(s.code))
}

// requestBytes makes a request. from asks for the bytes from there.
func (c *Client) requestBytes(ctx context.Context, url string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	client := &http.Client{Transport: c.Registry.Guard(c.Registry.Transport)}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusPartialContent && from > 0:
		return resp, nil
	}
	err = status{resp.StatusCode, url}
	return nil, errors.Join(err, resp.Body.Close())
}

// retryWhileGaining calls do until it succeeds, at most tries times in a row without a gain.
func (c *Client) retryWhileGaining(ctx context.Context, do func() (gain bool, err error)) error {
	for left := tries; ; {
		gain, err := do()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s, ok := errors.AsType[status](err); ok && s.code >= 400 && s.code < 500 &&
			s.code != http.StatusTooManyRequests && s.code != http.StatusRequestTimeout {
			kind := fault.Lab
			if s.code == http.StatusNotFound || s.code == http.StatusGone {
				kind = fault.NotFound
			}
			return fault.WithFix(fault.Wrap(kind, "", s), "check the address of the source")
		}
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		if left--; gain {
			left = tries
		}
		if left <= 0 {
			return fault.WithFix(fault.New(fault.Lab, "%s", safetext.Line(err.Error())),
				"check the network, and run the command again: what was downloaded is kept")
		}
		if err := c.wait(ctx, 500*time.Millisecond<<(tries-left)); err != nil {
			return err
		}
	}
}

func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if c.Wait != nil {
		return c.Wait(ctx, d)
	}
	if sleep.For(ctx, d) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Document returns what an address has, at most MaxDocument bytes.
func (c *Client) Document(ctx context.Context, url string) ([]byte, error) {
	var b []byte
	err := c.retryWhileGaining(ctx, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, stall)
		defer cancel()
		resp, err := c.requestBytes(ctx, url, 0)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		b, err = io.ReadAll(io.LimitReader(resp.Body, MaxDocument+1))
		if err == nil && len(b) > MaxDocument {
			err = fault.New(fault.Invalid, "%s has more than %d bytes", url, MaxDocument)
		}
		return false, err
	})
	return b, err
}

// Head returns the first n bytes of a file, or fewer if it has fewer.
func (c *Client) Head(ctx context.Context, f File, n int64) ([]byte, error) {
	var b []byte
	err := c.retryWhileGaining(ctx, func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, stall)
		defer cancel()
		resp, err := c.requestBytes(ctx, f.URL, 0)
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		b, err = io.ReadAll(io.LimitReader(resp.Body, n))
		return false, err
	})
	return b, err
}

// Download brings a file to a path, and continues what an earlier download left there.
// It verifies the checksum; if that is wrong, it removes the file, and the error is of
// kind fault.Invalid.
func (c *Client) Download(ctx context.Context, f File, to string) error {
	if !ValidSum(f.Sum) {
		return fault.New(fault.Invalid, "%s has no checksum", f.Name)
	}
	for {
		kept := int64(0)
		if info, err := os.Stat(to); err == nil {
			kept = info.Size()
		}
		if f.Size == 0 || kept != f.Size {
			if err := c.downloadRest(ctx, f, to); err != nil {
				if fault.Is(err, fault.Invalid) {
					err = errors.Join(err, os.Remove(to))
				}
				return fault.Op(f.Name, err)
			}
		}
		err := verify(ctx, f, to)
		if err == nil || !fault.Is(err, fault.Invalid) {
			return fault.Op(f.Name, err)
		}
		if rerr := os.Remove(to); rerr != nil || kept == 0 {
			return fault.Op(f.Name, errors.Join(err, rerr))
		}
		// The bytes of an earlier download may have been damaged, or of another file.
	}
}

// downloadRest downloads the bytes that a file lacks.
func (c *Client) downloadRest(ctx context.Context, f File, to string) error {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = c.retryWhileGaining(ctx, func() (bool, error) {
		from, err := out.Seek(0, io.SeekEnd)
		if err != nil {
			return false, fault.Op("", err)
		}
		return c.appendAnswer(ctx, f, out, from)
	})
	return errors.Join(err, out.Sync(), out.Close())
}

// appendAnswer appends what one answer has.
func (c *Client) appendAnswer(ctx context.Context, f File, out *os.File, from int64) (gain bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := c.requestBytes(ctx, f.URL, from)
	if s, ok := errors.AsType[status](err); ok && s.code == http.StatusRequestedRangeNotSatisfiable && from > 0 {
		return true, nil // everything is there; the checksum decides
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if from > 0 && !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from)) {
		if err := out.Truncate(0); err != nil {
			return false, fault.Op("", err)
		}
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return false, fault.Op("", err)
		}
		if from = 0; resp.StatusCode != http.StatusOK {
			return false, errors.New("the server sent another range of bytes than requested")
		}
	}
	all := f.Size
	if all == 0 && resp.ContentLength >= 0 {
		all = from + resp.ContentLength
	}
	most := int64(MaxFile)
	if f.Size > 0 {
		most = f.Size
	}
	timer := time.AfterFunc(stall, func() { cancel(fmt.Errorf("the server sent nothing for %s", stall)) })
	defer timer.Stop()
	n, err := c.copyFile(out, io.LimitReader(resp.Body, most-from+1), timer, f.Name, from, all)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	switch {
	case from+n > most:
		return false, fault.New(fault.Invalid, "the server sent more than %d bytes", most)
	case err == nil && f.Size > 0 && from+n < f.Size:
		err = io.ErrUnexpectedEOF
	}
	return n > 0, err
}

// copyFile copies, counts, and notes that bytes arrive.
func (c *Client) copyFile(out io.Writer, in io.Reader, timer *time.Timer, name string, from, all int64) (int64, error) {
	buffer, n, last := make([]byte, 256<<10), int64(0), time.Time{}
	for {
		m, err := in.Read(buffer)
		if m > 0 {
			timer.Reset(stall)
			if _, werr := out.Write(buffer[:m]); werr != nil {
				return n, fault.Op("", werr)
			}
			n += int64(m)
		}
		if now := time.Now(); c.Count != nil && (errors.Is(err, io.EOF) || now.Sub(last) > 100*time.Millisecond) {
			last = now
			c.Count("downloading "+name, from+n, max(all, from+n))
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// verify compares a file with its checksum.
func verify(ctx context.Context, f File, path string) error {
	algorithm, want, _ := strings.Cut(f.Sum, ":")
	h := map[string]func() hash.Hash{"sha512": sha512.New, "sha256": sha256.New, "sha1": sha1.New,
		"md5": md5.New}[algorithm]()
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	buffer := make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err := in.Read(buffer)
		h.Write(buffer[:n])
		if errors.Is(err, io.EOF) {
			if got := hex.EncodeToString(h.Sum(nil)); got != want {
				return fault.New(fault.Invalid, "the file was changed or is damaged: its %s is %s, and %s is expected", algorithm,
					got, want)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
