package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/hexsum"
	"bakeoff/base/journal"
)

// Run is an open run folder. Reads and writes through it never leave the folder,
// even if its names and links come from an untrusted source.
//
// Its methods may be called concurrently.
type Run struct {
	dir  string
	root *os.Root

	mu     sync.Mutex
	file   *os.File              // the journal, which is locked; nil: open for reading
	writer *journal.Writer[Line] // of file
}

// Name returns the name of a run folder: the time in UTC and the lab's name.
func Name(now time.Time, lab string) string {
	return now.UTC().Format(nameTime) + "-" + lab
}

// nameTime is the layout of the time in the name of a run folder.
const nameTime = "20060102T150405Z"

// TimeOf returns the time in the name of a run folder; the zero time if the name, which a
// user may have chosen, does not begin with one.
func TimeOf(name string) time.Time {
	text, _, _ := strings.Cut(name, "-")
	at, err := time.Parse(nameTime, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Free returns the path of a new run folder in the folder out: Name, and a number after it
// if a run of the same second has that name.
func Free(out string, now time.Time, lab string) string {
	dir := filepath.Join(out, Name(now, lab))
	free := dir
	for n := 2; ; n++ {
		if _, err := os.Lstat(free); err != nil {
			return free // what is wrong with out, Create says
		}
		free = fmt.Sprintf("%s-%d", dir, n)
	}
}

// Text is a file of a new run folder.
type Text struct {
	Name string
	Data []byte
}

// Create makes the run folder dir, which must not exist, with the lab file,
// the encoded plan and more files, and then writes the first line of its journal: the plan's
// sha256. Without this line the folder is not a run. Everything is on disk when it returns, and the folder is locked.
// at is the host's clock.
func Create(dir string, at time.Time, lab, plan []byte, more ...Text) (_ *Run, err error) {
	op := "store: create " + dir
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, refused(op, err)
	}
	if err := os.Mkdir(dir, 0o777); errors.Is(err, fs.ErrExist) {
		return nil, fault.WithFix(fault.Wrap(fault.Invalid, op, err), "choose a folder that does not exist yet")
	} else if err != nil {
		return nil, refused(op, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Lab, op, err)
	}
	r := &Run{dir: dir, root: root}
	defer func() {
		if err != nil {
			r.Close()
			err = fault.Op(op, err)
		}
	}()
	for _, d := range []string{RawDir, FingerprintDir} {
		if err := root.Mkdir(d, 0o777); err != nil {
			return nil, err
		}
	}
	if err := r.writeNew(LabFile, lab); err != nil {
		return nil, err
	}
	if err := r.writeNew(PlanFile, plan); err != nil {
		return nil, err
	}
	for _, f := range more {
		if err := r.writeNew(f.Name, f.Data); err != nil {
			return nil, err
		}
	}
	if err := r.openJournal(os.O_CREATE | os.O_EXCL); err != nil {
		return nil, err
	}
	r.writer = journalFormat.New(r.file)
	first := Line{Type: LinePlan, Schema: JournalSchema, At: at.UTC(), PlanSHA256: hexsum.Of(plan)}
	if err := r.Append(first); err != nil {
		return nil, err
	}
	if err := r.syncDir("."); err != nil {
		return nil, err
	}
	return r, atomicfile.SyncFolder(filepath.Dir(dir))
}

// refused returns the error for a folder that cannot be created.
func refused(op string, err error) error {
	wrapped := fault.Wrap(fault.Lab, op, err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fault.WithFix(wrapped, "name a folder that you may write to: --out FOLDER")
	}
	return wrapped
}

// Open opens the run folder dir for reading. It takes no lock: it can read a run
// in progress, up to its last whole line. Only results and reports can be
// written.
func Open(dir string) (*Run, error) {
	op := "store: open " + dir
	root, err := os.OpenRoot(dir)
	if err != nil {
		kind := fault.Lab
		if errors.Is(err, fs.ErrNotExist) {
			kind = fault.NotFound
		}
		return nil, fault.Wrap(kind, op, err)
	}
	if err := isRun(root); err != nil {
		root.Close()
		return nil, fault.Op(op, err)
	}
	return &Run{dir: dir, root: root}, nil
}

// isRun checks that a folder has a plan and a journal. A folder that has neither is
// no run (fault.NotFound); one that has a part of a run is damaged (*Tampered).
func isRun(root *os.Root) error {
	var absent []string
	for _, name := range []string{PlanFile, JournalFile} {
		switch info, err := root.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist):
			absent = append(absent, name)
		case err != nil:
			return fault.Wrap(fault.Lab, "", err)
		case !info.Mode().IsRegular():
			return fault.Wrap(fault.Invalid, "", &Tampered{Name: name, Reason: "the path is not a plain file"})
		}
	}
	switch len(absent) {
	case 0:
		return nil
	case 1:
		return fault.Wrap(fault.Invalid, "", &Tampered{Name: absent[0], Reason: "the file is missing"})
	}
	return fault.WithFix(fault.New(fault.NotFound, "this is not a run folder: it has no %s and no %s", PlanFile,
		JournalFile),
		"name a folder that bakeoff run or bakeoff try wrote")
}

// Resume opens the run folder dir to continue the run. It locks the folder, and
// removes a partial last line, left by a controller that was killed while
// writing.
func Resume(dir string) (*Run, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := r.resume(); err != nil {
		r.Close()
		return nil, fault.Op("store: resume "+dir, err)
	}
	return r, nil
}

func (r *Run) resume() error {
	if err := r.openJournal(0); err != nil {
		return err
	}
	writer, lines, err := journalFormat.Resume(r.file)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return fault.WithFix(fault.New(fault.Invalid, "%s is empty: the run was killed before it began", JournalFile),
			"delete the folder and run again")
	}
	r.writer = writer
	return nil
}

// openJournal opens the journal for appending and locks it.
func (r *Run) openJournal(flag int) error {
	f, err := r.root.OpenFile(JournalFile, os.O_RDWR|os.O_APPEND|flag, 0o666)
	if err != nil {
		return err
	}
	if err := lock(f); err != nil {
		f.Close()
		return fault.WithFix(fault.Wrap(fault.Lab, "lock "+JournalFile, err),
			"another bakeoff is writing this run: wait for it, or end it")
	}
	r.file = f
	return nil
}

// Append adds a line to the journal; see journal.Writer.Append.
func (r *Run) Append(l Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writer == nil {
		return fault.New(fault.Lab, "store: append: the run %s is open only for reading", r.dir)
	}
	return fault.Op("store", r.writer.Append(l))
}

// Journal reads the journal: every whole line, the first being the plan's.
// A torn last line is left out. Damage anywhere else is an error that holds a
// *Damage; the lines before it are returned too.
func (r *Run) Journal() ([]Line, error) {
	f, err := r.openPlain(JournalFile, maxJournal)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, _, err := ReadJournal(f)
	if err == nil && len(lines) == 0 {
		err = fault.New(fault.Invalid, "%s is empty: the run was killed before it began", JournalFile)
	}
	return lines, fault.Op("store: "+r.dir, err)
}

// Dir returns the folder's path as it was opened.
func (r *Run) Dir() string { return r.dir }

// Base returns the folder's name: the name of the run.
func (r *Run) Base() string {
	if abs, err := filepath.Abs(r.dir); err == nil {
		return filepath.Base(abs)
	}
	return filepath.Base(r.dir)
}

// Close gives the folder and its lock back.
func (r *Run) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.file != nil {
		unlock(r.file)
		err = r.file.Close()
		r.file, r.writer = nil, nil
	}
	return errors.Join(err, r.root.Close())
}
