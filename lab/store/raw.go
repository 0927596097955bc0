package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/lab/plan"
)

// Bounds on the raw output of a trial.
const (
	MaxBlob  = 64 << 20 // bytes of one blob
	MaxBlobs = 64
)

// Tampered reports a file that does not match its entry in the journal.
type Tampered struct {
	Name   string // below the run folder
	Reason string
}

// Error names the file and how it differs.
func (t *Tampered) Error() string { return t.Name + ": tampered: " + t.Reason }

// RawName returns the name of a trial's directory below raw/.
func RawName(s plan.Slot) string {
	return fmt.Sprintf("%d-%d-%s-%s", s.Block, s.Position, s.Contender, s.Cell)
}

// WriteRaw stores the output of a trial and returns its entries for the
// journal, in order of the blobs' names. The output is on disk when WriteRaw
// returns, so a line of the journal never names a missing file. A trial is
// written once.
//
// WriteRaw syncs all files of the trial and their directories concurrently: the
// file system then commits once per trial, not once per file. syncfs(2) would
// take one call, but it would also flush data that a storage workload left in
// the cache on purpose.
func (r *Run) WriteRaw(s plan.Slot, blobs map[string][]byte) ([]File, error) {
	dir := RawName(s)
	op := "store: write " + RawDir + "/" + dir
	if err := errors.Join(checkName(s.Contender), checkName(s.Cell)); err != nil {
		return nil, fault.Wrap(fault.Lab, op, err)
	}
	if len(blobs) > MaxBlobs {
		return nil, fault.New(fault.Lab, "%s: the trial has %d raw outputs (blobs); the limit is %d", op,
			len(blobs), MaxBlobs)
	}
	if err := r.root.Mkdir(RawDir+"/"+dir, 0o777); err != nil {
		return nil, fault.Wrap(fault.Lab, op, err)
	}
	var files []File
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		if err := checkName(name); err != nil {
			return nil, fault.Wrap(fault.Lab, op, err)
		}
		if n := len(blobs[name]); n > MaxBlob {
			return nil, fault.New(fault.Lab, "%s: %s has %d bytes; the limit is %d", op, name, n, MaxBlob)
		}
		files = append(files, fileOf(dir+"/"+name, blobs[name]))
	}
	if err := r.syncAll(dir, blobs); err != nil {
		return nil, fault.Wrap(fault.Lab, op, err)
	}
	return files, nil
}

// syncAll writes the blobs into their directory, then syncs them concurrently.
func (r *Run) syncAll(dir string, blobs map[string][]byte) (err error) {
	var open []*os.File
	defer func() {
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
	}()
	for name, data := range blobs {
		f, err := r.root.OpenFile(RawDir+"/"+dir+"/"+name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return err
		}
		open = append(open, f)
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(open)+2)
	for i, f := range open {
		wg.Go(func() { errs[i] = f.Sync() })
	}
	wg.Go(func() { errs[len(open)] = r.syncDir(RawDir + "/" + dir) })
	wg.Go(func() { errs[len(open)+1] = r.syncDir(RawDir) })
	wg.Wait()
	return errors.Join(errs...)
}

// ReadRaw returns the bytes of a raw output that the journal names. If the file
// is missing or does not match the journal, the error is of kind fault.Invalid
// and holds a *Tampered. ReadRaw then also returns the bytes that are there, so
// that the caller can find out what depends on them.
func (r *Run) ReadRaw(f File) ([]byte, error) {
	dir, blob, ok := strings.Cut(f.Name, "/")
	if err := errors.Join(checkName(dir), checkName(blob)); !ok || err != nil {
		return nil, fault.New(fault.Invalid, "store: the journal names %s, which is not raw output (TRIAL/BLOB)",
			quote(f.Name))
	}
	name := RawDir + "/" + f.Name
	tampered := func(format string, args ...any) error {
		return fault.Wrap(fault.Invalid, "store", &Tampered{Name: name, Reason: fmt.Sprintf(format, args...)})
	}
	if f.Bytes < 0 || f.Bytes > MaxBlob {
		return nil, fault.New(fault.Invalid, "store: %s: the file has %d bytes according to the journal; the "+
			"limit is %d", name, f.Bytes,
			MaxBlob)
	}
	data, err := r.read(name, MaxBlob)
	switch got := fileOf(f.Name, data); {
	case fault.Is(err, fault.NotFound):
		return nil, tampered("the file is missing")
	case err != nil:
		return nil, err
	case got.Bytes != f.Bytes:
		return data, tampered("it has %d bytes, but the journal says %d", got.Bytes, f.Bytes)
	case got.SHA256 != f.SHA256:
		return data, tampered("its sha256 is %s, the journal says %s", got.SHA256, quote(f.SHA256))
	}
	return data, nil
}

// RawDirs returns the names of the directories below raw/, sorted. One that
// the journal does not name belongs to a trial that was being kept when the
// controller was killed.
func (r *Run) RawDirs() ([]string, error) {
	entries, err := fs.ReadDir(r.root.FS(), RawDir)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "store: read "+RawDir, err)
	}
	out := lists.Map(entries, func(e fs.DirEntry) string { return e.Name() })
	return out, nil
}
