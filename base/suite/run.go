package suite

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Status is how a test ended.
type Status string

// The ways in which a test ends.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Outcome is how one test ended.
type Outcome struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Seconds is how long it took, those within it included.
	Seconds float64 `json:"seconds"`
	// Said is what it logged, a line each, bounded to maxSaid.
	Said []string `json:"said,omitempty"`
}

// maxSaid bounds what is kept of what one test said, in bytes.
const maxSaid = 16 << 10

// Run runs f as the test name, outside of `go test`, and returns how it and
// every test within it ended, in the order in which they ended: f itself is
// the last. Run calls ended, unless it is nil, for each test when it ends. A
// panic fails the test in which it happened.
func Run(ctx context.Context, name string, f func(T), ended func(Outcome)) []Outcome {
	r := &runner{ended: ended}
	r.run(ctx, name, f)
	return r.outcomes
}

type runner struct {
	ended    func(Outcome)
	mu       sync.Mutex
	outcomes []Outcome
}

// test is one running test. A test runs in one goroutine, but may log from
// others.
type test struct {
	r    *runner
	name string
	ctx  context.Context

	mu       sync.Mutex
	status   Status
	said     []string
	size     int
	cleanups []func()
}

func (r *runner) run(ctx context.Context, name string, f func(T)) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &test{r: r, name: name, ctx: ctx, status: Passed}
	start := time.Now()
	t.protected(func() { f(t) })
	cancel()
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			break
		}
		last := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		t.protected(last)
	}
	t.mu.Lock()
	o := Outcome{Name: name, Status: t.status, Seconds: time.Since(start).Seconds(), Said: t.said}
	t.mu.Unlock()
	r.mu.Lock()
	r.outcomes = append(r.outcomes, o)
	r.mu.Unlock()
	if r.ended != nil {
		r.ended(o)
	}
	return o.Status != Failed
}

// protected runs f in a goroutine of its own, which Fatal and Skip end.
func (t *test) protected(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (t *test) Helper()                  {}
func (t *test) Name() string             { return t.name }
func (t *test) Context() context.Context { return t.ctx }
func (t *test) Short() bool              { return false }

func (t *test) Log(args ...any) { t.logLine(strings.TrimSuffix(fmt.Sprintln(args...), "\n")) }
func (t *test) Logf(format string, args ...any) {
	t.logLine(strings.TrimSuffix(fmt.Sprintf(format, args...), "\n"))
}

func (t *test) Error(args ...any)                 { t.Log(args...); t.setStatus(Failed) }
func (t *test) Errorf(format string, args ...any) { t.Logf(format, args...); t.setStatus(Failed) }
func (t *test) Fatal(args ...any)                 { t.Error(args...); runtime.Goexit() }
func (t *test) Fatalf(format string, args ...any) { t.Errorf(format, args...); runtime.Goexit() }
func (t *test) Skip(args ...any)                  { t.Log(args...); t.setStatus(Skipped); runtime.Goexit() }
func (t *test) Skipf(format string, args ...any) {
	t.Logf(format, args...)
	t.setStatus(Skipped)
	runtime.Goexit()
}

// setStatus notes a status; what has failed stays so.
func (t *test) setStatus(s Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != Failed {
		t.status = s
	}
}

func (t *test) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status == Failed
}

func (t *test) logLine(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := maxSaid - t.size; len(line) > room {
		line = strings.ToValidUTF8(line[:max(0, room)], "?") + " …"
	}
	if t.size < maxSaid {
		t.said = append(t.said, line)
	}
	t.size += len(line)
}

func (t *test) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *test) TempDir() string {
	// Short: the path of a socket has 104 bytes on some systems.
	dir, err := os.MkdirTemp("", "bakeoff-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("a directory of the test stays: %v", err)
		}
	})
	return dir
}

func (t *test) Run(name string, f func(T)) bool {
	ok := t.r.run(t.ctx, t.name+"/"+strings.ReplaceAll(name, " ", "_"), f)
	if !ok {
		t.setStatus(Failed)
	}
	return ok
}
