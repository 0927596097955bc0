package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/journal"
	"bakeoff/base/lock"
	"bakeoff/base/shell"
	"bakeoff/prepare/install/plan"
	"bakeoff/reach/conn"
)

// Events of a journal.
const (
	eventBegin   = "begin"
	eventBind    = "bind"
	eventStart   = "start"
	eventDone    = "done"
	eventFail    = "fail"
	eventRelease = "release"
	eventEnd     = "end"
)

// Line is a line of the journal. The first one is a begin.
type Line struct {
	Event    string    `json:"event"`
	Time     time.Time `json:"time"`
	Plan     string    `json:"plan,omitempty"`   // hash
	Serial   string    `json:"serial,omitempty"` // of the disk
	GPT      string    `json:"gpt,omitempty"`
	PoolGUID string    `json:"pool_guid,omitempty"`
	Step     string    `json:"step,omitempty"`
	Note     string    `json:"note,omitempty"`
}

// Record is the folder of an installation: plan.json, journal.ndjson and log.
type Record struct {
	Dir      string
	Plan     *plan.Plan
	Ended    bool
	GPT      string // bound identities, "" before they exist; GPT is that of the first disk
	PoolGUID string
	Lines    []Line

	tables map[string]string // identities of partition tables, by the step that wrote them
	states map[string]string // the last start, done or fail of each step
	writer *journal.Writer[Line]
	file   *os.File
	lock   *lock.Lock
}

const maxPlan = 4 << 20

// Create makes the folder of a new installation.
func Create(dir string, p *plan.Plan) (*Record, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Lab, "install", err)
	}
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "plan.json")
	if _, err := os.Lstat(name); err == nil {
		return nil, fault.WithFix(fault.New(fault.Invalid, "%s holds an installation already", dir),
			"run bakeoff install resume "+shell.Quote(dir)+", or use another folder")
	}
	if err := atomicfile.Write(name, append(text, '\n'), 0o600); err != nil {
		return nil, err
	}
	return Open(dir)
}

// Open opens the folder of an installation to continue it. Only one process can.
func Open(dir string) (*Record, error) {
	r, err := readPlan(dir)
	if err != nil {
		return nil, err
	}
	if r.lock, err = lock.Try(filepath.Join(dir, "lock")); err != nil {
		if errors.Is(err, lock.ErrHeld) {
			err = fault.WithFix(fault.Wrap(fault.Invalid, dir, err), "wait until the other process ends")
		}
		return nil, err
	}
	r.file, err = os.OpenFile(filepath.Join(dir, "journal.ndjson"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Join(fault.Wrap(fault.Lab, "install", err), r.Close())
	}
	var lines []Line
	if r.writer, lines, err = r.format().Resume(r.file); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.apply(lines)
	if len(lines) == 0 {
		if err := r.append(Line{Event: eventBegin, Plan: r.Plan.Hash, Serial: r.Plan.Disk.Serial}); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// Look reads the folder of an installation, also while another process continues it.
func Look(dir string) (*Record, error) {
	r, err := readPlan(dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, "journal.ndjson"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "install", err)
	}
	defer f.Close()
	lines, _, err := r.format().Read(f)
	r.apply(lines)
	return r, err
}

func readPlan(dir string) (*Record, error) {
	name := filepath.Join(dir, "plan.json")
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.WithFix(fault.New(fault.NotFound, "%s holds no installation", dir),
			"name the folder that bakeoff install apply printed")
	}
	if err == nil && info.Size() > maxPlan {
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", name, maxPlan)
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.Wrap(fault.Lab, "install", err)
	}
	p, err := plan.Read(name, src)
	if err != nil {
		return nil, err
	}
	return &Record{Dir: dir, Plan: p, states: map[string]string{}, tables: map[string]string{}}, nil
}

// format checks that a journal belongs to the plan.
func (r *Record) format() journal.Format[Line] {
	return journal.Format[Line]{Name: filepath.Join(r.Dir, "journal.ndjson"),
		Fix: "restore the folder, or make another plan", Check: func(l Line, first bool) error {
			switch {
			case first != (l.Event == eventBegin):
				return fmt.Errorf("the event %q is in the wrong place", l.Event)
			case first && (l.Plan != r.Plan.Hash || l.Serial != r.Plan.Disk.Serial):
				return fmt.Errorf("the journal belongs to another plan or disk")
			case l.Step != "" && r.Plan.Step(l.Step) == nil:
				return fmt.Errorf("the plan has no step %q", l.Step)
			}
			return nil
		}}
}

// apply reads lines into the state.
func (r *Record) apply(lines []Line) {
	for _, l := range lines {
		r.Lines = append(r.Lines, l)
		switch l.Event {
		case eventStart, eventDone:
			r.states[l.Step] = l.Event
			r.Ended = r.Ended || r.Plan.Step(l.Step).Departs // whether it took effect cannot be seen later
		case eventFail:
			r.Ended = r.Ended && !r.Plan.Step(l.Step).Departs
		case eventEnd:
			r.Ended = true
		}
		if l.GPT != "" {
			r.tables[l.Step] = l.GPT
			r.GPT = r.tables[r.Plan.Drives()[0].Partition()]
		}
		if l.PoolGUID != "" {
			r.PoolGUID = l.PoolGUID
		}
	}
}

func (r *Record) append(l Line) error {
	l.Time = time.Now().UTC()
	if err := r.writer.Append(l); err != nil {
		return err
	}
	r.apply([]Line{l})
	return nil
}

// Status is how far an installation is.
type Status struct {
	Recipe   string `json:"recipe"`
	Disk     string `json:"disk"`
	Serial   string `json:"serial"`
	Plan     string `json:"plan"` // hash
	Steps    int    `json:"steps"`
	Done     int    `json:"done"`
	Ended    bool   `json:"ended"`
	Next     string `json:"next,omitempty"` // the first step that is not done
	GPT      string `json:"gpt,omitempty"`
	PoolGUID string `json:"pool_guid,omitempty"`
	Failed   string `json:"failed,omitempty"` // the last error, unless a step began after it
}

// Status says how far the installation is. Steps that release what others took are done with
// the last one.
func (r *Record) Status() Status {
	s := Status{Recipe: r.Plan.Recipe, Disk: r.Plan.Disk.ByID, Serial: r.Plan.Disk.Serial, Plan: r.Plan.Hash,
		Steps: len(r.Plan.Steps), Ended: r.Ended, GPT: r.GPT, PoolGUID: r.PoolGUID}
	for i := range r.Plan.Steps {
		p := &r.Plan.Steps[i]
		if r.states[p.ID] == eventDone || r.Ended {
			s.Done++
		} else if s.Next == "" && p.Releases == "" {
			s.Next = p.ID
		}
	}
	for _, l := range r.Lines {
		switch l.Event {
		case eventFail:
			s.Failed = l.Step + ": " + l.Note
		case eventStart, eventEnd:
			s.Failed = ""
		}
	}
	return s
}

// log appends what a command printed. A log that cannot be written stops nothing: the journal
// decides.
func (r *Record) log(id string, argv []string, exit conn.Exit, said string) {
	f, err := os.OpenFile(filepath.Join(r.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "%s %s: %s: %s\n%s\n", time.Now().UTC().Format(time.RFC3339), id, shell.Quote(argv...), exit, said)
}

// Close ends the use of the folder.
func (r *Record) Close() error {
	var all []error
	if r.file != nil {
		all = append(all, r.file.Close())
	}
	if r.lock != nil {
		r.lock.Release()
	}
	return errors.Join(all...)
}
