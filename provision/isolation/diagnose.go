package isolation

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"bakeoff/base/safetext"
	"bakeoff/base/shell"
	"bakeoff/reach/conn"
)

// maxDiagnosis bounds what Diagnose returns, in bytes.
const maxDiagnosis = 64 << 10

// journal keeps the last commands that failed.
type journal struct {
	mu   sync.Mutex
	last []string
}

// maxFailures is how many failures are kept.
const maxFailures = 20

// add records a command that failed.
func (j *journal) add(argv []string, exit conn.Exit, err error, stderr []byte) {
	if err == nil && exit.OK() {
		return
	}
	what := shell.Quote(argv...)
	if len(what) > 300 {
		what = what[:300] + "…"
	}
	how := exit.String()
	if err != nil {
		how = err.Error()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = append(j.last, fmt.Sprintf("%q: %s\n%s\n", what, how, safetext.Text(string(stderr))))
	if over := len(j.last) - maxFailures; over > 0 {
		j.last = append([]string{}, j.last[over:]...)
	}
}

// Diagnose returns the processes and their usage, and the last commands that
// failed with their output.
func (e *Env) Diagnose(ctx context.Context) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "environment %s (%s) in %s\n", e.Spec.Label, e.Spec.Name, e.Spec.Dir)
	if e.Group != nil {
		e.processes(ctx, &b)
		if u, err := e.Group.Usage(ctx); err == nil {
			b.WriteString("usage:" + amount("CPU s", u.CPUSeconds) + amount("memory", u.MemoryNow) +
				amount("memory peak", u.MemoryPeak) + amount("out-of-memory kills", u.OOMKills) + "\n")
		}
	}
	if e.Details != nil {
		b.Write(e.Details(ctx))
	}
	if e.held != nil {
		if _, errs := e.held.said(); len(errs) > 0 {
			fmt.Fprintf(&b, "output of the program that holds it:\n%s\n", safetext.Text(string(errs)))
		}
	}
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if len(e.log.last) > 0 {
		b.WriteString("commands that failed, the last one last:\n" + strings.Join(e.log.last, ""))
	}
	// The end is the most recent part.
	out := b.Bytes()
	return out[max(0, len(out)-maxDiagnosis):]
}

func amount(name string, v *float64) string {
	if v == nil {
		return " " + name + " unavailable;"
	}
	return fmt.Sprintf(" %s %.6g;", name, *v)
}

func (e *Env) processes(ctx context.Context, b *bytes.Buffer) {
	pids, err := e.Group.PIDs(ctx)
	if err != nil {
		fmt.Fprintf(b, "processes: %v\n", err)
		return
	}
	fmt.Fprintf(b, "processes: %d\n", len(pids))
	for i, pid := range pids {
		if i == 100 {
			b.WriteString("  …\n")
			break
		}
		fmt.Fprintf(b, "  %s\n", describe(ctx, conn.FilesOf(e.Host), pid))
	}
}

// describe is a process in a form for people: "process 12 nginx: master".
func describe(ctx context.Context, files conn.Files, pid int) string {
	line, err := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/cmdline", pid))
	name := strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	if err != nil || name == "" {
		comm, _ := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/comm", pid))
		name = strings.TrimSpace(string(comm))
	}
	if len(name) > 120 {
		name = name[:120] + "…"
	}
	return strings.TrimSpace(fmt.Sprintf("process %d %s", pid, name))
}
