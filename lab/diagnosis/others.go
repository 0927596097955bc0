package diagnosis

import (
	"cmp"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/lab/store"
)

// Processes are the CPU times of all processes at one moment.
type Processes struct {
	at   time.Time
	busy float64 // seconds of all CPUs, with processes that ended
	of   map[int]process
}

type process struct {
	name   string
	parent int
	own    float64 // seconds
	ended  float64 // seconds of its children that ended
}

// clockTicks is USER_HZ, the unit of times in /proc, which is 100 on every architecture
// that bakeoff is built for.
const clockTicks = 100

// ReadProcesses reads /proc below root; nil if the system has none of this form.
func ReadProcesses(root fs.FS) *Processes {
	p := Processes{at: time.Now(), of: map[int]process{}}
	stat, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return nil
	}
	var ok bool
	if p.busy, ok = busySeconds(string(stat)); !ok {
		return nil
	}
	entries, err := fs.ReadDir(root, "proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := fs.ReadFile(root, "proc/"+e.Name()+"/stat")
		if err != nil {
			continue // it has ended
		}
		if x, ok := parseProcess(string(text)); ok {
			p.of[pid] = x
		}
	}
	return &p
}

// busySeconds is the time in which any CPU worked, from /proc/stat (proc(5)).
func busySeconds(text string) (float64, bool) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, false
	}
	var sum float64
	for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return 0, false
		}
		sum += float64(n)
	}
	return sum / clockTicks, true
}

// parseProcess reads /proc/PID/stat (proc(5)). The name in parentheses may contain
// anything, parentheses too.
func parseProcess(text string) (process, bool) {
	begin, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if begin < 0 || end < begin {
		return process{}, false
	}
	p := process{name: text[begin+1 : end]}
	f := strings.Fields(text[end+1:]) // from field 3 on
	if len(f) < 15 {
		return p, false
	}
	var err error
	if p.parent, err = strconv.Atoi(f[1]); err != nil {
		return p, false
	}
	for i, to := range map[int]*float64{11: &p.own, 12: &p.own, 13: &p.ended, 14: &p.ended} {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return p, false
		}
		*to += float64(n) / clockTicks
	}
	return p, true
}

// biggest is how many programs Others names, and least the CPUs' worth of time from
// which on it names one.
const (
	biggest = 3
	least   = 0.05
)

// Others is what programs other than self and its descendants used between two
// readings, the earlier of which is before. It returns nil if either is missing.
func (p *Processes) Others(before *Processes, self int) *store.Others {
	if p == nil || before == nil || !p.at.After(before.at) {
		return nil
	}
	passed := p.at.Sub(before.at).Seconds()
	var ours, named float64
	by := map[string]float64{}
	for pid, x := range p.of {
		was := before.of[pid]
		if was.name != x.name || was.parent != x.parent { // another process, or one that was something else
			was = process{own: min(was.own, x.own), ended: min(was.ended, x.ended)}
		}
		if p.descends(pid, self) {
			ours += x.own - was.own + x.ended - was.ended
			continue
		}
		if d := x.own - was.own; d > 0 {
			by[x.name] += d
			named += d
		}
	}
	o := store.Others{CPUs: runtime.NumCPU(), Used: max(p.busy-before.busy-ours, named) / passed,
		Programs: []store.Program{}}
	for name, used := range by {
		if used/passed >= least {
			o.Programs = append(o.Programs, store.Program{Name: name, Used: used / passed})
		}
	}
	slices.SortFunc(o.Programs, func(a, b store.Program) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Name, b.Name))
	})
	o.Programs = o.Programs[:min(len(o.Programs), biggest)]
	return &o
}

// descends tells whether pid is self or below it.
func (p *Processes) descends(pid, self int) bool {
	for range len(p.of) { // a reading that takes a while may hold a circle
		if pid == self {
			return true
		}
		x, ok := p.of[pid]
		if !ok {
			return false
		}
		pid = x.parent
	}
	return false
}
