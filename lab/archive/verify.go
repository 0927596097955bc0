package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/unit"
	"bakeoff/lab/archive/bundle"
	"bakeoff/provision/image/layout"
)

// Found is what Verify found about a bundle.
type Found struct {
	Bundle string `json:"bundle"`
	Run    string `json:"run"`
	// Problem says what does not hold; "" if everything does.
	Problem string   `json:"problem,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// SignedBy are those in the file of trusted keys whose signatures hold.
	SignedBy []string `json:"signed_by"`
}

// Verify checks a bundle: every digest, the folder, the samples, and that the record says
// the same. inside is called with the folder of the unpacked run; nil calls nothing. The
// error says that it could not be told; what does not hold is in Found.
func (s *Store) Verify(ctx context.Context, digest string, inside func(dir string) error) (Found, error) {
	out := Found{Bundle: digest, SignedBy: []string{}}
	e, err := s.Entry(digest)
	if err == nil {
		out.Run = e.Record.Run
		m, _, merr := s.Manifest(digest)
		if err = merr; err == nil {
			out.Notes, err = s.checkParts(ctx, m, e.Record, inside)
		}
	}
	if err == nil {
		var more []string
		more, err = s.damagedReferrers(digest)
		out.Notes = append(out.Notes, more...)
	}
	if err == nil {
		var who []string
		if who, err = s.SignedBy(ctx, digest); err == nil {
			out.SignedBy = append(out.SignedBy, who...)
			err = s.require(ctx, digest)
		}
	}
	if err == nil {
		var has bool
		if has, err = s.Index.Has(ctx, digest); err == nil && !has {
			err = fault.WithFix(fault.New(fault.Invalid, "the index lacks the run"), "run bakeoff store rebuild")
		}
	}
	if fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) {
		out.Problem, err = err.Error(), nil
	}
	return out, err
}

// checkParts checks the parts of a bundle whose blobs are there.
func (s *Store) checkParts(ctx context.Context, m bundle.Manifest, rec bundle.Record,
	inside func(dir string) error) ([]string, error) {
	results, err := s.Results(m)
	if err != nil {
		return nil, err
	}
	if err := s.checkBlob(ctx, m.Samples()); err != nil {
		return nil, err
	}
	work, done, err := s.workFolder()
	if err != nil {
		return nil, err
	}
	defer done()
	dir := filepath.Join(work, rec.Run)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, fault.Wrap(fault.Lab, "store", err)
	}
	if err := s.unpack(ctx, m, rec, dir); err != nil {
		return nil, err
	}
	notes, err := bundle.Check(dir, m, rec, results)
	if rec.Lacking > 0 {
		notes = append(notes, unit.Count(rec.Lacking, "raw file")+" of the journal missing: the numbers cannot be computed "+
			"again")
	}
	if err == nil && inside != nil {
		err = inside(dir)
	}
	return notes, err
}

// workFolder makes a folder, which done removes, and prune if this process is killed.
func (s *Store) workFolder() (dir string, done func(), err error) {
	parent := filepath.Join(s.Dir, workDir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, fault.Wrap(fault.Lab, "store", err)
	}
	dir = filepath.Join(parent, rand.Text())
	held, err := lock.Try(dir + lockSuffix)
	if err != nil {
		return "", nil, fault.Op("store", err)
	}
	done = func() {
		_ = os.RemoveAll(dir)
		_ = os.Remove(dir + lockSuffix)
		held.Release()
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		done()
		return "", nil, fault.Wrap(fault.Lab, "store", err)
	}
	return dir, done, nil
}

// lockSuffix ends the name of the lock of a work folder.
const lockSuffix = ".lock"

// checkBlob reads a blob and compares its digest.
func (s *Store) checkBlob(ctx context.Context, p bundle.Part) error {
	return s.readBlob(ctx, p, func(io.Reader) error { return nil })
}

// readBlob calls use with a blob, reads the rest of it, and compares the digest.
func (s *Store) readBlob(ctx context.Context, p bundle.Part, use func(io.Reader) error) error {
	d := p.Descriptor()
	f, err := os.Open(s.blobs.Blob(d.Digest))
	if errors.Is(err, os.ErrNotExist) {
		return fault.WithFix(fault.New(fault.NotFound, "blob %s is missing in %s", d.Digest, s.Dir),
			"run bakeoff store pull, or add the run folder again")
	}
	if err != nil {
		return fault.Wrap(fault.Lab, "store", err)
	}
	defer f.Close()
	meter := layout.NewMeter()
	in := io.TeeReader(io.LimitReader(f, d.Size+1), meter)
	useErr := use(in)
	for useErr == nil && ctx.Err() == nil {
		if _, err := io.CopyN(io.Discard, in, 1<<20); err == io.EOF {
			break
		} else if err != nil {
			return fault.Wrap(fault.Lab, "store", err)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if useErr != nil {
		return useErr
	}
	if got := meter.Descriptor(); got.Digest != d.Digest || got.Size != d.Size {
		return fault.WithFix(fault.New(fault.Invalid, "%s is damaged: its digest is %s", f.Name(), got.Digest),
			"remove the file, then run bakeoff store pull or add the run folder again")
	}
	return nil
}

func (s *Store) unpack(ctx context.Context, m bundle.Manifest, rec bundle.Record, dir string) error {
	return s.readBlob(ctx, m.Folder(), func(r io.Reader) error { return bundle.Unpack(r, rec, dir) })
}

// Unpack writes the run folder of a bundle into the folder parent, under the name of the
// run, which must be free there. A folder that cannot be unpacked as a whole is not left.
func (s *Store) Unpack(ctx context.Context, digest, parent string) (string, error) {
	e, err := s.Entry(digest)
	if err != nil {
		return "", err
	}
	m, _, err := s.Manifest(digest)
	if err != nil {
		return "", err
	}
	to := filepath.Join(parent, e.Record.Run)
	if _, err := os.Lstat(to); err == nil {
		return "", fault.WithFix(fault.New(fault.Invalid, "%s exists", to), "name another folder")
	}
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return "", fault.Wrap(fault.Lab, "store", err)
	}
	part, err := os.MkdirTemp(parent, ".part-")
	if err != nil {
		return "", fault.Wrap(fault.Lab, "store", err)
	}
	defer os.RemoveAll(part)
	if err := os.Chmod(part, 0o755); err != nil {
		return "", fault.Wrap(fault.Lab, "store", err)
	}
	if err := s.unpack(ctx, m, e.Record, part); err != nil {
		return "", err
	}
	return to, fault.Wrap(fault.Lab, "store", os.Rename(part, to))
}

// Missing compares the store with its index: bundles that the index lacks, and runs of
// the index whose bundle is not here.
func (s *Store) Missing(ctx context.Context) (inIndex, inStore []string, err error) {
	here, err := s.Bundles()
	if err != nil {
		return nil, nil, err
	}
	known, err := s.Index.Bundles(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range here {
		if _, ok := slices.BinarySearch(known, d); !ok {
			inIndex = append(inIndex, d)
		}
	}
	for _, d := range known {
		if _, ok := slices.BinarySearch(here, d); !ok {
			inStore = append(inStore, d)
		}
	}
	return inIndex, inStore, nil
}
