// Package queue runs lab files as jobs of Slurm. It keeps its own record of what was asked,
// so that a job is neither lost nor run twice when Slurm's controller, a node or bakeoff
// itself is killed.
//
// A job is one run on one host, or on two: one for the subject and one for the generator. It
// has a UUID, and a host that bakeoff chooses when it submits the job. The host keeps a
// folder for each UUID, with the run and its result: if a job starts there a second time, it
// continues the run, or ends at once because the result exists. A job moves to another host
// only after its host said that the run did not begin there, and promised not to begin it
// later; or after the host was silent for the patience of the cluster file.
//
// There is no daemon. Every command that reads the queue also takes it a round further
// (Queue.Round).
package queue

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/journal"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/strictjson"
	"bakeoff/judge/history"
)

// Queue is the record of one user on one machine.
type Queue struct {
	// Dir is the folder of the record.
	Dir     string
	Cluster *Cluster
	Slurm   Slurm
	// Note gets lines for a person; nil discards them.
	Note func(string)
}

// The folders of a queue.
const (
	openDir  = "open"  // jobs that have not ended
	endedDir = "ended" // jobs that have
)

// The files of a job.
const (
	askFile     = "ask.json"
	parcelFile  = "parcel.tar.gz"
	journalFile = "journal.ndjson"
	lockFile    = "lock"
	reasonFile  = "reason" // why it waits
)

// Ask is what somebody asked for. It never changes.
type Ask struct {
	UUID string `json:"uuid"`
	// Group is common to the jobs of one command.
	Group string `json:"group"`
	// Lab is the name of the lab, or "calibrate".
	Lab string `json:"lab"`
	// Pools are the pools of the hosts of the job, and Bind the names of those hosts in the
	// lab file; "" is the machine that bakeoff runs on.
	Pools []string  `json:"pools"`
	Bind  []string  `json:"bind"`
	User  string    `json:"user"`
	At    time.Time `json:"at"`
	// Out is the folder for the run folder, on this machine.
	Out string `json:"out"`
	// Hosts are the hosts that the job was given from the beginning; empty: bakeoff chooses.
	Hosts []string `json:"hosts,omitempty"`
	// Low puts the job behind all others.
	Low   bool  `json:"low,omitempty"`
	Order Order `json:"order"`
}

// Order is what the host executes.
type Order struct {
	UUID      string            `json:"uuid"`
	Calibrate bool              `json:"calibrate,omitempty"`
	Profile   string            `json:"profile,omitempty"`
	Only      []string          `json:"only,omitempty"`
	Budget    time.Duration     `json:"budget_ns,omitempty"`
	Seed      uint64            `json:"seed,omitempty"`
	FailOn    []string          `json:"fail_on,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Limit is the time limit of the job.
	Limit time.Duration `json:"limit_ns"`
}

// The types of a line in the journal of a job.
const (
	lineAsked    = "asked"
	lineSubmit   = "submit"   // Slurm is about to be asked; the line names the hosts
	lineQueued   = "queued"   // Slurm accepted the job, or had accepted it
	lineRunning  = "running"  // on a host
	lineAgain    = "again"    // an attempt ended without a result
	linePaused   = "paused"   // by its user
	lineReleased = "released" // by its user
	lineCancel   = "cancel"   // its user asked for it
	lineEnded    = "ended"
)

// line is one line of the journal of a job.
type line struct {
	Type  string    `json:"type"`
	At    time.Time `json:"at"`
	Hosts []string  `json:"hosts,omitempty"`
	ID    string    `json:"slurm_id,omitempty"`
	// Reason says why.
	Reason string `json:"reason,omitempty"`
	// Counts says that an attempt counts among those that are permitted.
	Counts bool   `json:"counts,omitempty"`
	State  string `json:"state,omitempty"`
	Code   *int   `json:"code,omitempty"`
	Folder string `json:"folder,omitempty"`
	// Blocks are the blocks of the run that count.
	Blocks int `json:"blocks,omitempty"`
}

// The states of a job.
const (
	Waiting  = "waiting" // Slurm does not have it yet, or lost it
	Queued   = "queued"
	Running  = "running"
	Paused   = "paused"
	Done     = "done"     // there is a result
	Failed   = "failed"   // bakeoff gave up
	Canceled = "canceled" // its user, or Slurm's, did not want it any longer
)

// Job is a job with its state.
type Job struct {
	Ask
	State string    `json:"state"`
	Since time.Time `json:"since"`
	// Hosts are those that the job is bound to; empty: none yet.
	Hosts []string `json:"hosts"`
	ID    string   `json:"slurm_id,omitempty"`
	// Submitted counts how often Slurm got the job, and Tries how often it ended there
	// without a result for a reason that counts.
	Submitted int `json:"submitted"`
	Tries     int `json:"tries"`
	// Reason is the latest reason: why it waits, ran again, or failed.
	Reason string `json:"reason,omitempty"`
	// Code is the exit code of bakeoff run; nil: unknown.
	Code *int `json:"code"`
	// Folder is the run folder on this machine; "" if there is none.
	Folder string `json:"folder,omitempty"`
	// Events is the history.
	Events []Event `json:"events"`

	canceling bool // its user asked for it
	abandoned []string
	progress  int
	counted   string // the reason of the last attempt that counts
}

// Event is a line of the history of a job.
type Event struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Over reports whether the job has ended.
func (j Job) Over() bool { return j.State == Done || j.State == Failed || j.State == Canceled }

// format is that of the journal of a job.
func format(path string) journal.Format[line] {
	known := []string{lineAsked, lineSubmit, lineQueued, lineRunning, lineAgain, linePaused, lineReleased, lineCancel,
		lineEnded}
	return journal.Format[line]{Name: path, Fix: "remove the folder of the job, and submit the lab file again",
		Check: func(l line, first bool) error {
			if first != (l.Type == lineAsked) || !slices.Contains(known, l.Type) {
				return fmt.Errorf("unexpected line of type %q", l.Type)
			}
			if l.State != "" && l.State != Done && l.State != Failed && l.State != Canceled {
				return fmt.Errorf("unknown state %q", l.State)
			}
			return nil
		}}
}

// jobState computes the state of a job from its journal.
func jobState(ask Ask, lines []line) Job {
	j := Job{Ask: ask, State: Waiting, Since: ask.At, Hosts: ask.Hosts}
	for _, l := range lines {
		j.Since = l.At
		j.apply(l)
		j.Events = append(j.Events, Event{l.At, l.text()})
	}
	return j
}

func (j *Job) apply(l line) {
	if l.Reason != "" {
		j.Reason = l.Reason
	}
	switch l.Type {
	case lineSubmit:
		j.State, j.Hosts, j.ID = Waiting, l.Hosts, ""
		j.Submitted++
	case lineQueued:
		j.State, j.ID = Queued, l.ID
	case lineRunning:
		j.State, j.Reason = Running, ""
	case lineAgain:
		j.State, j.ID = Waiting, ""
		if j.progress = max(j.progress, l.Blocks); l.Counts {
			j.Tries++
			j.counted = l.Reason
		}
		if len(l.Hosts) > 0 { // that it leaves
			j.abandoned = append(j.abandoned, l.Hosts...)
			j.Hosts = j.Ask.Hosts
		}
	case linePaused:
		j.State = Paused
	case lineReleased:
		j.State, j.Tries, j.canceling, j.Code, j.Folder, j.Reason, j.ID = Waiting, 0, false, nil, "", "", ""
	case lineCancel:
		j.canceling = true
	case lineEnded:
		j.State, j.Code, j.Folder = l.State, l.Code, l.Folder
	}
}

// text is the line for a person.
func (l line) text() string {
	text := l.Type
	switch l.Type {
	case lineSubmit:
		text = "submitted for " + strings.Join(l.Hosts, " and ")
	case lineQueued:
		text = "accepted by Slurm as job " + l.ID
	case lineRunning:
		text = "started"
	case lineAgain:
		text = "to be submitted again"
		if len(l.Hosts) > 0 {
			text += ", on another host"
		}
	case lineCancel:
		text = "to be canceled"
	case lineEnded:
		text = l.State
		if l.Code != nil {
			text += fmt.Sprintf(", exit code %d", *l.Code)
		}
	}
	if l.Reason != "" {
		text += ": " + l.Reason
	}
	return text
}

// newUUID is a random identifier (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// validUUID reports whether s may be the name of a folder.
func validUUID(s string) bool {
	return len(s) == 36 && strings.Trim(s, "0123456789abcdef-") == "" && s[0] != '-'
}

// Add records jobs. When it returns nil, they are on the disk, and some later round submits
// them. parcel is what the host needs, by the index of the job.
func (q *Queue) Add(asks []Ask, parcel func(Ask) ([]byte, error)) ([]string, error) {
	open := filepath.Join(q.Dir, openDir)
	for _, dir := range []string{open, filepath.Join(q.Dir, endedDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.Op("queue", err)
		}
	}
	group := newUUID()
	var made, out []string
	for _, ask := range asks {
		ask.UUID, ask.Group = newUUID(), group
		ask.Order.UUID = ask.UUID
		if len(asks) > 1 && !ask.Order.Calibrate { // the hosts are registered before the first job
			ask.Order.Labels = maps.Clone(ask.Order.Labels)
			if ask.Order.Labels == nil {
				ask.Order.Labels = map[string]string{}
			}
			ask.Order.Labels[history.FleetLabel] = history.FleetValue(len(asks), group)
		}
		dir := filepath.Join(open, "."+ask.UUID)
		made, out = append(made, dir), append(out, ask.UUID)
		data, err := parcel(ask)
		if err == nil {
			err = q.write(dir, ask, data)
		}
		if err != nil {
			for _, dir := range made {
				err = errors.Join(err, os.RemoveAll(dir))
			}
			return nil, err
		}
	}
	for _, uuid := range out { // from here on the jobs exist
		if err := os.Rename(filepath.Join(open, "."+uuid), filepath.Join(open, uuid)); err != nil {
			return nil, fault.Op("queue", err)
		}
	}
	return out, syncDir(open)
}

func (q *Queue) write(dir string, ask Ask, parcel []byte) error {
	text, err := json.Marshal(ask)
	if err != nil {
		return fault.Op("queue", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fault.Op("queue", err)
	}
	for name, data := range map[string][]byte{askFile: text, parcelFile: parcel} {
		if err := writeDurably(filepath.Join(dir, name), data); err != nil {
			return fault.Op("queue", err)
		}
	}
	file, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fault.Op("queue", err)
	}
	defer file.Close()
	return format(file.Name()).New(file).Append(line{Type: lineAsked, At: ask.At})
}

// writeDurably writes a file that survives a loss of power.
func writeDurably(path string, data []byte) error {
	f, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fault.Op("queue", err)
	}
	return fault.Op("queue", errors.Join(d.Sync(), d.Close()))
}

// maxAsk bounds what was asked, in bytes.
const maxAsk = 1 << 20

// read reads a job of a folder.
func read(dir string) (Job, error) {
	text, err := readFile(filepath.Join(dir, askFile), maxAsk)
	if err != nil {
		return Job{}, err
	}
	var ask Ask
	if err := strictjson.Decode(text, &ask); err != nil {
		return Job{}, fault.Wrap(fault.Invalid, filepath.Join(dir, askFile), err)
	}
	path := filepath.Join(dir, journalFile)
	f, err := os.Open(path)
	if err != nil {
		return Job{}, fault.Op("queue", err)
	}
	defer f.Close()
	lines, _, err := format(path).Read(f)
	j := jobState(ask, lines)
	if text, e := readFile(filepath.Join(dir, reasonFile), maxAsk); e == nil && !j.Over() {
		j.Reason = string(text)
	}
	return j, err
}

// Jobs returns the jobs of the record, oldest first. With ended it includes those that have
// ended. A job whose files are damaged is an error beside the others.
func (q *Queue) Jobs(ended bool) (jobs []Job, err error) {
	dirs := []string{openDir}
	if ended {
		dirs = append(dirs, endedDir)
	}
	seen := map[string]bool{} // one may be moved meanwhile
	for _, dir := range dirs {
		entries, e := os.ReadDir(filepath.Join(q.Dir, dir))
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			return jobs, fault.Op("queue", e)
		}
		for _, entry := range entries {
			if !validUUID(entry.Name()) || seen[entry.Name()] {
				continue
			}
			j, e := read(filepath.Join(q.Dir, dir, entry.Name()))
			if errors.Is(e, fs.ErrNotExist) {
				continue
			}
			if e != nil {
				err = errors.Join(err, e)
				continue
			}
			seen[entry.Name()] = true
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.UUID, b.UUID)
	})
	return jobs, err
}

// Find returns the job that a person names by its UUID or the beginning of one.
func (q *Queue) Find(name string) (Job, error) {
	jobs, err := q.Jobs(true)
	if err != nil {
		return Job{}, err
	}
	var found []Job
	for _, j := range jobs {
		if strings.HasPrefix(j.UUID, name) && name != "" {
			found = append(found, j)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Job{}, fault.WithFix(fault.New(fault.NotFound, "no job %q", name), "see bakeoff queue list --all")
	}
	return Job{}, fault.New(fault.Invalid, "%d jobs begin with %q; write more of the UUID", len(found), name)
}

// jobFolder is the folder of a job.
func (q *Queue) jobFolder(uuid string) string {
	dir := filepath.Join(q.Dir, openDir, uuid)
	if _, err := os.Stat(dir); err != nil {
		if ended := filepath.Join(q.Dir, endedDir, uuid); exists(ended) {
			return ended
		}
	}
	return dir
}

// Log is the file with what the run of a job printed; "" if it was not collected.
func (q *Queue) Log(j Job) string {
	if path := filepath.Join(q.jobFolder(j.UUID), logFile); exists(path) {
		return path
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// held is a job whose lock this process holds.
type held struct {
	Job
	dir    string
	lock   *lock.Lock
	file   *os.File
	writer *journal.Writer[line]
}

// errBusy means that another process works on a job.
var errBusy = errors.New("another bakeoff process is working on the job")

// lockJob takes the lock of a job and reads it.
func (q *Queue) lockJob(ctx context.Context, uuid string, wait bool) (_ *held, err error) {
	h := &held{dir: q.jobFolder(uuid)}
	path := filepath.Join(h.dir, lockFile)
	if wait {
		h.lock, err = lock.Wait(ctx, path)
	} else if h.lock, err = lock.Try(path); errors.Is(err, lock.ErrHeld) {
		err = errBusy
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.release()
		}
	}()
	if h.Job, err = read(h.dir); err != nil {
		return nil, err
	}
	path = filepath.Join(h.dir, journalFile)
	if h.file, err = os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0); err != nil {
		return nil, fault.Op("queue", err)
	}
	h.writer, _, err = format(path).Resume(h.file)
	return h, err
}

func (h *held) release() {
	if h.file != nil {
		h.file.Close() // every line was synced
	}
	h.lock.Release()
}

// add appends a line and applies it.
func (h *held) add(l line) error {
	l.At = time.Now().UTC()
	if err := h.writer.Append(l); err != nil {
		return err
	}
	os.Remove(filepath.Join(h.dir, reasonFile)) // if it stays, the next round replaces it
	h.Since = l.At
	h.apply(l)
	h.Events = append(h.Events, Event{l.At, l.text()})
	return nil
}

// noteReason notes why a job waits. It is lost with the next line.
func (h *held) noteReason(reason string) error {
	if reason = safetext.Line(reason); h.Reason == reason || reason == "None" {
		return nil
	}
	h.Reason = reason
	return fault.Op("queue", writeDurably(filepath.Join(h.dir, reasonFile), []byte(reason)))
}

// recordEnd records the end of the job, and moves its folder.
func (q *Queue) recordEnd(h *held, l line) error {
	l.Type = lineEnded
	if err := h.add(l); err != nil {
		return err
	}
	return q.shelve(h)
}

// shelve moves the folder of a job that has ended.
func (q *Queue) shelve(h *held) error {
	to := filepath.Join(q.Dir, endedDir, h.UUID)
	if h.dir == to {
		return nil
	}
	if err := os.Rename(h.dir, to); err != nil {
		return fault.Op("queue", err)
	}
	h.dir = to
	return nil
}

// reopen moves the folder of a job back to those that have not ended.
func (q *Queue) reopen(h *held) error {
	to := filepath.Join(q.Dir, openDir, h.UUID)
	if h.dir == to {
		return nil
	}
	if err := os.Rename(h.dir, to); err != nil {
		return fault.Op("queue", err)
	}
	h.dir = to
	return nil
}

func (q *Queue) note(format string, args ...any) {
	if q.Note != nil {
		q.Note(fmt.Sprintf(format, args...))
	}
}
