package queue

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/strictjson"
	"bakeoff/judge/history"
	"bakeoff/lab/store"
)

// Host is the folder of jobs on the machine that executes them: one folder for each UUID.
type Host struct{ Dir string }

// The states of a job on its host.
const (
	HostNone        = "none"        // it did not begin here
	HostFenced      = "fenced"      // it did not, and never will
	HostRunning     = "running"     // a process has its lock
	HostInterrupted = "interrupted" // by a signal, or killed
	HostFailed      = "failed"      // bakeoff failed
	HostDone        = "done"
)

// resultSchema is that of Result.
const resultSchema = "bakeoff/queue-result/v1"

// Result is what a host knows of a job.
type Result struct {
	Schema string `json:"schema"`
	UUID   string `json:"uuid"`
	State  string `json:"state"`
	Code   *int   `json:"code"` // of bakeoff run; nil: it did not end by itself
	Run    string `json:"run"`  // name of the run folder; "": none
	Reason string `json:"reason,omitempty"`
	// Starts counts how often a process began the job, and Bytes is the length of the
	// run's journal.
	Starts int   `json:"starts"`
	Bytes  int64 `json:"bytes"`
	// Blocks are the blocks of the run that count: a job that is interrupted and has no more of
	// them than before made no progress.
	Blocks int `json:"blocks"`
}

// The files of a job on its host.
const (
	resultFile  = "result.json"
	startsFile  = "starts"
	fencedFile  = "fenced"
	parcelDir   = "parcel"
	runsDir     = "runs"
	logFile     = "log.txt"
	resultEntry = "result.json"
	runEntry    = "run"
)

// Work is a job that begins on its host, which holds its lock.
type Work struct {
	Order Order
	// Lab is the lab file; Runs is the folder for the run folder.
	Lab, Runs string
	// Resume is the run folder of an earlier start; "" if there is none.
	Resume string
	// Log is what the run prints.
	Log *os.File
	// Began is when this process did.
	Began time.Time
	// Ended is the result that exists: there is nothing to do. nil: there is.
	Ended *Result

	dir  string
	lock *lock.Lock
}

// Begin begins the job of a script, or continues it. It waits while another process works on
// the job: one that Slurm has lost.
func (h Host) Begin(ctx context.Context, script []byte) (_ *Work, err error) {
	parcel, err := parcelOf(script)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return nil, fault.Op("queue", err)
	}
	fresh, err := os.MkdirTemp(h.Dir, ".parcel-")
	if err != nil {
		return nil, fault.Op("queue", err)
	}
	defer os.RemoveAll(fresh)
	if err := openParcel(parcel, fresh); err != nil {
		return nil, err
	}
	w := &Work{Began: time.Now()}
	if w.Order, err = readOrder(filepath.Join(fresh, orderFile)); err != nil {
		return nil, err
	}
	w.dir = filepath.Join(h.Dir, w.Order.UUID)
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return nil, fault.Op("queue", err)
	}
	if w.lock, err = lock.Wait(ctx, filepath.Join(w.dir, lockFile)); err != nil {
		return nil, fault.Op("queue", err)
	}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	return w, w.begin(fresh)
}

func readOrder(path string) (o Order, err error) {
	text, err := readFile(path, maxAsk)
	if err == nil {
		err = strictjson.Decode(text, &o)
	}
	if err == nil && !validUUID(o.UUID) {
		err = fmt.Errorf("%q is not a UUID", o.UUID)
	}
	return o, fault.Wrap(fault.Invalid, "the order of the job", err)
}

// begin finds out what is left to do, and notes that the job starts.
func (w *Work) begin(fresh string) error {
	now, err := status(w.dir, w.Order.UUID)
	if err != nil {
		return err
	}
	if now.State == HostDone || now.State == HostFenced {
		w.Ended = &now
		return nil
	}
	if to := filepath.Join(w.dir, parcelDir); !exists(to) {
		if err := os.Rename(fresh, to); err != nil {
			return fault.Op("queue", err)
		}
	}
	w.Lab = filepath.Join(w.dir, parcelDir, labFolder, "bakeoff.yaml")
	w.Runs = filepath.Join(w.dir, runsDir)
	if now.Run != "" && now.Bytes > 0 {
		w.Resume = filepath.Join(w.Runs, now.Run)
	}
	starts, err := os.OpenFile(filepath.Join(w.dir, startsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Op("queue", err)
	}
	_, err = fmt.Fprintln(starts, time.Now().UTC().Format(time.RFC3339), "job", os.Getenv("SLURM_JOB_ID"))
	if err := errors.Join(err, starts.Sync(), starts.Close()); err != nil {
		return fault.Op("queue", err)
	}
	if err := os.Remove(filepath.Join(w.dir, resultFile)); err != nil && !os.IsNotExist(err) {
		return fault.Op("queue", err)
	}
	w.Log, err = os.OpenFile(filepath.Join(w.dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return fault.Op("queue", err)
}

// lookIn is look, in the folder of a job, which it creates.
func (h Host) lookIn(uuid string) (dir string, r Result, l *lock.Lock, err error) {
	if !validUUID(uuid) {
		return "", r, nil, fault.New(fault.Invalid, "%q is not a UUID", uuid)
	}
	dir = filepath.Join(h.Dir, uuid)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", r, nil, fault.Op("queue", err)
	}
	r, l, err = h.look(uuid)
	return dir, r, l, err
}

// Fail notes that a job could not begin, unless something is known of it.
func (h Host) Fail(uuid string, why error) error {
	dir, r, l, err := h.lookIn(uuid)
	defer l.Release()
	if err != nil || l == nil || r.State == HostDone || r.State == HostFenced {
		return err
	}
	r.State, r.Reason = HostFailed, why.Error()
	return r.keep(dir)
}

func (r Result) keep(dir string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fault.Op("queue", err)
	}
	return fault.Op("queue", writeDurably(filepath.Join(dir, resultFile), append(text, '\n')))
}

// Idle waits until no other run measures on this machine: one that Slurm lost may.
func (w *Work) Idle(ctx context.Context, file string) error {
	if file == "" {
		return nil
	}
	l, err := lock.Wait(ctx, file)
	l.Release()
	return fault.Op("queue", err)
}

// Args are the arguments of bakeoff that execute the order. node is this machine's name in
// Slurm, and binds say which machines the hosts of the lab file are: NAME=NODE=ADDRESS.
func (w *Work) Args(node string, binds []string) []string {
	o := w.Order
	if o.Calibrate {
		args := []string{"calibrate", "--quick", "--out", w.Runs}
		if o.Budget > 0 {
			args = append(args, "--budget", o.Budget.String())
		}
		return args
	}
	args := []string{"run"}
	if o.Budget > 0 {
		args = append(args, "--budget", o.Budget.String())
	}
	for _, condition := range o.FailOn {
		args = append(args, "--fail-on", condition)
	}
	if w.Resume != "" {
		return append(args, "--resume", w.Resume)
	}
	if o.Profile != "" {
		args = append(args, "--profile", o.Profile)
	}
	for _, cell := range o.Only {
		args = append(args, "--only", cell)
	}
	if o.Seed != 0 {
		args = append(args, "--seed", strconv.FormatUint(o.Seed, 10))
	}
	machine := node
	for _, b := range binds {
		name, rest, _ := strings.Cut(b, "=")
		at, address, _ := strings.Cut(rest, "=")
		if at == node {
			address = "local"
		} else if len(binds) == 1 {
			machine = address[strings.LastIndexByte(address, '@')+1:]
		}
		args = append(args, "--bind", name+"="+address)
	}
	labels := maps.Clone(o.Labels)
	if labels[history.FleetLabel] != "" && labels[history.MachineLabel] == "" {
		labels[history.MachineLabel] = machine // the names of hosts may be equal
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		args = append(args, "--label", key+"="+labels[key])
	}
	return append(args, "--out", w.Runs, "--", w.Lab)
}

// End writes the result.
func (w *Work) End(state string, code int, reason string) error {
	now, err := status(w.dir, w.Order.UUID)
	if err != nil {
		return err
	}
	now.State, now.Code, now.Reason = state, &code, reason
	return now.keep(w.dir)
}

// Close gives the lock of the job back.
func (w *Work) Close() {
	if w.Log != nil {
		w.Log.Close()
	}
	w.lock.Release()
}

// status reads what is known of a job whose lock is held or free.
func status(dir, uuid string) (Result, error) {
	r := Result{Schema: resultSchema, UUID: uuid, State: HostNone}
	text, err := readFile(filepath.Join(dir, resultFile), maxAsk)
	if err == nil {
		err = strictjson.Decode(text, &r)
		return r, fault.Wrap(fault.Invalid, filepath.Join(dir, resultFile), err)
	}
	if !fault.Is(err, fault.NotFound) {
		return r, err
	}
	if exists(filepath.Join(dir, fencedFile)) {
		r.State = HostFenced
		return r, nil
	}
	starts, err := readFile(filepath.Join(dir, startsFile), maxAsk)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return r, err
	}
	r.State, r.Reason = HostInterrupted, "the job was killed"
	for _, b := range starts {
		if b == '\n' {
			r.Starts++
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, runsDir))
	if err != nil && !os.IsNotExist(err) {
		return r, fault.Op("queue", err)
	}
	for _, e := range slices.Backward(entries) { // the latest, if an earlier one has no journal
		if info, err := os.Stat(filepath.Join(dir, runsDir, e.Name(), store.JournalFile)); err == nil && info.Size() > 0 {
			r.Run, r.Bytes = e.Name(), info.Size()
			r.Blocks = countBlocks(filepath.Join(dir, runsDir, e.Name(), store.JournalFile))
			break
		}
	}
	return r, nil
}

// countBlocks counts the blocks of a journal that count, as far as it can be read: a run whose
// journal is damaged says so when it is resumed.
func countBlocks(path string) (n int) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	lines, _, _ := store.ReadJournal(f)
	for _, l := range lines {
		if l.Type == store.LineBlock && l.Status == store.OK {
			n++
		}
	}
	return n
}

// look returns what is known of a job, with its lock; the lock is nil while a process works
// on the job, or if the host does not know the job.
func (h Host) look(uuid string) (Result, *lock.Lock, error) {
	if !validUUID(uuid) {
		return Result{}, nil, fault.New(fault.Invalid, "%q is not a UUID", uuid)
	}
	dir := filepath.Join(h.Dir, uuid)
	if !exists(dir) {
		return Result{Schema: resultSchema, UUID: uuid, State: HostNone}, nil, nil
	}
	l, err := lock.Try(filepath.Join(dir, lockFile))
	if errors.Is(err, lock.ErrHeld) {
		return Result{Schema: resultSchema, UUID: uuid, State: HostRunning}, nil, nil
	}
	if err != nil {
		return Result{}, nil, fault.Op("queue", err)
	}
	r, err := status(dir, uuid)
	return r, l, err
}

// Send writes what the host knows of a job as a compressed archive: the result, and with
// files the run folder and what the run printed.
func (h Host) Send(out io.Writer, uuid string, files bool) error {
	r, l, err := h.look(uuid)
	defer l.Release()
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	err = addBytes(t, resultEntry, text)
	dir := filepath.Join(h.Dir, uuid)
	if run := filepath.Join(dir, runsDir, r.Run); err == nil && files && l != nil && r.Run != "" && exists(run) {
		err = addTree(t, run, runEntry)
	}
	if log := filepath.Join(dir, logFile); err == nil && files && l != nil && exists(log) {
		err = addTree(t, log, logFile)
	}
	return errors.Join(err, t.Close(), z.Close())
}

// Fence promises that a job will not begin here, unless it has begun.
func (h Host) Fence(uuid string) error {
	dir, r, l, err := h.lookIn(uuid)
	defer l.Release()
	if err != nil || r.State != HostNone {
		return err
	}
	return fault.Op("queue", writeDurably(filepath.Join(dir, fencedFile), nil))
}

// Drop removes the files of a job that its user has. The result stays, so that the job does
// not begin a second time.
func (h Host) Drop(uuid string) error {
	r, l, err := h.look(uuid)
	defer l.Release()
	if err != nil || l == nil {
		return err
	}
	if r.State != HostDone {
		return fault.New(fault.Invalid, "job %s is %s on this host; only a job that is done can be dropped", uuid, r.State)
	}
	dir := filepath.Join(h.Dir, uuid)
	for _, name := range []string{parcelDir, runsDir, logFile} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	return fault.Op("queue", err)
}

// keptFor is how long a host remembers the result of a job.
const keptFor = 90 * 24 * time.Hour

// Prune removes what the host remembers of old jobs.
func (h Host) Prune(now time.Time) error {
	entries, err := os.ReadDir(h.Dir)
	if err != nil && !os.IsNotExist(err) {
		return fault.Op("queue", err)
	}
	for _, e := range entries {
		dir := filepath.Join(h.Dir, e.Name())
		info, err := e.Info()
		if err != nil || !validUUID(e.Name()) || now.Sub(info.ModTime()) < keptFor {
			continue
		}
		if _, l, err := h.look(e.Name()); err == nil && l != nil {
			os.RemoveAll(dir)
			l.Release()
		}
	}
	return nil
}

// receive reads what Send wrote. It writes the files below root; nil discards them.
func receive(in io.Reader, root *os.Root) (r Result, err error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return r, fault.Wrap(fault.Lab, "the answer of the host", err)
	}
	t := tar.NewReader(z)
	head, err := t.Next()
	if err != nil || head.Name != resultEntry || head.Size > maxAsk {
		return r, fault.New(fault.Lab, "the answer of the host has no result: %v", err)
	}
	text, err := io.ReadAll(t)
	if err == nil {
		err = strictjson.Decode(text, &r)
	}
	if err != nil || r.Schema != resultSchema || !validUUID(r.UUID) {
		return r, fault.New(fault.Lab, "the answer of the host has no valid result: %v", err)
	}
	if root == nil {
		return r, nil
	}
	if err := unpackFrom(t, root, maxUnpacked); err != nil {
		return r, err
	}
	_, err = io.Copy(io.Discard, z) // checks the sum of the archive
	return r, fault.Wrap(fault.Lab, "the answer of the host", err)
}
