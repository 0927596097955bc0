package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/name"
	"bakeoff/base/yamltree"
)

// Bounds on the files of a run folder, in bytes. A stranger's folder is read
// too.
const (
	maxPlan        = 64 << 20
	maxJournal     = 1 << 30
	maxFingerprint = 1 << 20
	maxResults     = 256 << 20
	maxCalibration = 4 << 20
)

// Lab returns the lab file as it was written.
func (r *Run) Lab() ([]byte, error) { return r.read(LabFile, yamltree.MaxSource) }

// Plan returns the encoded plan.
func (r *Run) Plan() ([]byte, error) { return r.read(PlanFile, maxPlan) }

// Relative returns relative.json; an error of kind fault.NotFound if there is none.
func (r *Run) Relative() ([]byte, error) { return r.read(RelativeFile, maxResults) }

// Results returns results.json; an error of kind fault.NotFound if there is
// none yet.
func (r *Run) Results() ([]byte, error) { return r.read(ResultsFile, maxResults) }

// WriteResults replaces results.json.
func (r *Run) WriteResults(data []byte) error { return r.WriteFile(ResultsFile, data) }

// RemoveResults removes results.json, if there is one: when a run continues,
// its results are out of date.
func (r *Run) RemoveResults() error {
	if err := r.root.Remove(ResultsFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Lab, "store: remove "+ResultsFile, err)
	}
	return nil
}

// WriteFingerprint replaces the fingerprint of a contender and returns its entry
// for the journal.
func (r *Run) WriteFingerprint(contender string, fp facts.Fingerprint) (File, error) {
	data, err := json.MarshalIndent(fp, "", "  ")
	if err != nil {
		return File{}, fault.Wrap(fault.Lab, "store: fingerprint of "+contender, err)
	}
	data = append(data, '\n')
	if err := checkName(contender); err != nil {
		return File{}, err
	}
	name := FingerprintDir + "/" + contender + ".json"
	return fileOf(name, data), r.WriteFile(name, data)
}

// Fingerprint reads the fingerprint of a contender; an error of kind
// fault.NotFound if there is none.
func (r *Run) Fingerprint(contender string) (facts.Fingerprint, error) {
	var fp facts.Fingerprint
	if err := checkName(contender); err != nil {
		return fp, err
	}
	name := FingerprintDir + "/" + contender + ".json"
	data, err := r.read(name, maxFingerprint)
	if err != nil {
		return fp, err
	}
	if err := json.Unmarshal(data, &fp); err != nil {
		return fp, fault.Wrap(fault.Invalid, "store: "+name, err)
	}
	if fp.Schema != facts.FingerprintSchema {
		return fp, fault.New(fault.Invalid, "store: %s: schema is %q, but this program reads %q", name, fp.Schema,
			facts.FingerprintSchema)
	}
	return fp, nil
}

// FingerprintFile returns name, size and hash of the stored fingerprint of a
// contender.
func (r *Run) FingerprintFile(contender string) (File, error) {
	if err := checkName(contender); err != nil {
		return File{}, err
	}
	name := FingerprintDir + "/" + contender + ".json"
	data, err := r.read(name, maxFingerprint)
	return fileOf(name, data), err
}

// KeepCalibration stores the calibration of the machine in the run folder and
// adds its name, size and hash to the journal.
func (r *Run) KeepCalibration(at time.Time, data []byte) error {
	if len(data) > maxCalibration {
		return fault.New(fault.Lab, "store: the calibration has %d bytes; the limit is %d", len(data),
			maxCalibration)
	}
	if err := r.WriteFile(CalibrationFile, data); err != nil {
		return err
	}
	return r.Append(Line{Type: LineCalibration, At: at.UTC(), Calibration: new(fileOf(CalibrationFile, data))})
}

// Calibration reads the calibration of the machine as of the start of the run,
// and returns the entry that the journal should have for it. The error is of
// kind fault.NotFound if there was none.
func (r *Run) Calibration() ([]byte, File, error) {
	data, err := r.read(CalibrationFile, maxCalibration)
	return data, fileOf(CalibrationFile, data), err
}

// WriteFile replaces a file that is made from the evidence: results, reports.
// Readers see the old one or the new one. WriteFile refuses to replace the
// evidence itself (lab file, plan, journal, raw outputs).
func (r *Run) WriteFile(name string, data []byte) error {
	return r.replace(name, data, atomicfile.WriteIn)
}

// WriteUnsynced does as WriteFile, but does not wait for the disk: for many files that can
// be made again at any time.
func (r *Run) WriteUnsynced(name string, data []byte) error {
	return r.replace(name, data, atomicfile.WriteUnsyncedIn)
}

func (r *Run) replace(name string, data []byte, write func(*os.Root, string, []byte, fs.FileMode) error) error {
	op := "store: write " + name
	if err := replaceable(op, name); err != nil {
		return err
	}
	if err := r.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return fault.Wrap(fault.Lab, op, err)
	}
	return fault.Wrap(fault.Lab, op, write(r.root, name, data, 0o666))
}

// replaceable refuses names outside of the folder and those of the evidence.
func replaceable(op, name string) error {
	top, _, _ := strings.Cut(name, "/")
	switch {
	case name != path.Clean(name) || !fs.ValidPath(name):
		return fault.New(fault.Lab, "%s: not a path inside the run folder", op)
	case top == LabFile, top == PlanFile, top == JournalFile, top == RawDir:
		return fault.New(fault.Lab, "%s: the file is evidence, and bakeoff never replaces evidence", op)
	}
	return nil
}

// RemoveFile removes a file that WriteFile wrote, if it is there.
func (r *Run) RemoveFile(name string) error {
	op := "store: remove " + name
	if err := replaceable(op, name); err != nil {
		return err
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Lab, op, err)
	}
	return nil
}

// FS returns the folder for reading: to serve a report. It refuses symbolic
// links that lead out of the folder.
func (r *Run) FS() fs.FS { return r.root.FS() }

// writeNew writes a file that does not exist, and waits for the disk.
func (r *Run) writeNew(name string, data []byte) error {
	f, err := r.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// read returns a plain file of at most limit bytes.
func (r *Run) read(name string, limit int64) ([]byte, error) {
	f, err := r.openPlain(name, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, fault.Wrap(fault.Lab, "store: read "+name, err)
}

// openPlain opens a file after checking that it is a plain one: opening a pipe in
// an untrusted folder would never return.
func (r *Run) openPlain(name string, limit int64) (*os.File, error) {
	op := "store: read " + name
	info, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.NotFound, op, err)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, op, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "%s: the path is not a plain file", op)
	}
	if info.Size() > limit {
		return nil, fault.New(fault.Invalid, "%s: the file has %d bytes; the limit is %d", op, info.Size(), limit)
	}
	f, err := r.root.Open(name)
	return f, fault.Wrap(fault.Lab, op, err)
}

// syncDir waits until the names in a folder are on the disk.
func (r *Run) syncDir(name string) error { return atomicfile.SyncFolderIn(r.root, name) }

func fileOf(name string, data []byte) File {
	return File{Name: name, SHA256: hexsum.Of(data), Bytes: int64(len(data))}
}

// maxName is the longest part of a file's name: contender, cell and position.
const maxName = 200

// checkName refuses what cannot be a part of a file's name in a run folder.
func checkName(s string) error {
	if !name.Valid(s, maxName) {
		return fault.New(fault.Invalid, "store: %s cannot be part of a file name; use [a-z0-9][a-z0-9._~-]*", quote(s))
	}
	return nil
}

// quote shows a stranger's text in a message, bounded.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return fmt.Sprintf("%q", s)
}
