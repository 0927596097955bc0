package drivertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/conntest"
)

// life: the Info of an environment, and its end.
func (s *runner) life() {
	spec := s.spec("life")
	spec.Watch = true
	start := time.Now()
	in := s.create(spec)
	s.Logf("created in %v", time.Since(start).Round(100*time.Microsecond))
	info := in.Info()
	text, err := json.Marshal(info)
	if err != nil || info.Agent == "" || info.Scratch == "" || len(info.Facts) == 0 {
		s.Errorf("Info is incomplete: %s, %v", text, err)
	}
	if s.drv.Doc().Kernel && !info.OwnKernel {
		s.Error("Doc.Kernel is true, but Info.OwnKernel is false")
	}
	s.Logf("%s", text)
	s.moments(in, start)
	if exit, out := s.exec(in, info.Agent, "list"); !exit.OK() {
		s.Errorf("the agent does not run at %s: %v %s", info.Agent, exit, out)
	}
	if exit, out := s.exec(in, "ls", "-A", info.Scratch); !exit.OK() || out != "" {
		s.Errorf("the scratch directory is not empty: %v %q", exit, out)
	}
	ctx, cancel := context.WithTimeout(s.Context(), s.o.Timeout)
	defer cancel()
	if !s.drv.Doc().Whole { // the machine is there already
		s.sameLabel(ctx, in, spec)
	}
	s.exec(in, "sh", "-c", "echo one that failed >&2; exit 3")
	if d := in.Diagnose(ctx); len(d) == 0 || len(d) > 64<<10 {
		s.Errorf("the diagnosis has %d bytes", len(d))
	}
}

// sameLabel: a second environment with the same label must fail and must not affect the
// first.
func (s *runner) sameLabel(ctx context.Context, in driver.Instance, spec driver.Spec) {
	s.Helper()
	again := spec
	again.Dir = filepath.Join(s.dir, "env-again")
	if err := os.Mkdir(again.Dir, 0o755); err != nil {
		s.Fatal(err)
	}
	if second, err := s.drv.Create(ctx, s.host, again); err == nil {
		second.Close(ctx)
		s.Error("two environments have the same label")
	}
	if exit, out := s.exec(in, in.Info().Agent, "list"); !exit.OK() {
		s.Errorf("the first environment no longer works: %v %s", exit, out)
	}
}

// moments: what a driver saw of the start of an environment happened after start, and
// what it did not see has a reason.
func (s *runner) moments(in driver.Instance, start time.Time) {
	w, ok := driver.AsWatched(in)
	if !ok {
		s.Log("the driver does not see how environments come up")
		return
	}
	seen, err := w.Moments(s.Context())
	if err != nil {
		s.Errorf("moments: %v", err)
		return
	}
	now, known := time.Now(), map[string]bool{}
	for _, m := range seen.List {
		s.Logf("%s %v ± %v: %s", m.Name, m.At.Sub(start), m.Uncertainty, m.How)
		slack := max(0, m.Uncertainty)
		late := m.At.After(now.Add(slack))
		early := m.At.Before(start.Add(-slack)) && m.Name != bootmodel.MarkClock // a fake has the clock of the host
		if known[m.Name] || m.How == "" || late || early {
			s.Errorf("the moment %q is impossible: %v after the start, ± %v", m.Name, m.At.Sub(start), m.Uncertainty)
		}
		known[m.Name] = true
	}
	logged := seen.Log != nil && len(seen.Log.Text) > 0
	for _, name := range []string{bootmodel.MarkVCPU, bootmodel.MarkFirmware, bootmodel.MarkKernel, bootmodel.MarkClock,
		bootmodel.MarkUserland} {
		inLog := logged && (name == bootmodel.MarkVCPU || name == bootmodel.MarkFirmware || name == bootmodel.MarkKernel)
		if why := seen.Absent[name]; known[name] == (why != "") && !inLog {
			s.Errorf("the moment %q: seen is %v, and it is absent because of %q", name, known[name], why)
		}
	}
}

func (s *runner) contract() {
	in := s.create(s.spec("contract"))
	conntest.On(s.T, in, conntest.Options{Dir: in.Info().Scratch, Bytes: s.o.Transfer})
}

// sideBySide: two environments, each with its own files and background process.
func (s *runner) sideBySide() {
	a, b := s.create(s.spec("left")), s.create(s.spec("right"))
	for in, text := range map[driver.Instance]string{a: "left", b: "right"} {
		if err := in.Push(s.Context(), in.Info().Scratch+"/who", 0o644, strings.NewReader(text)); err != nil {
			s.Fatal(err)
		}
		program := in.Info().Agent
		exit, out := s.exec(in, "sh", "-c", `"$0" subject beat "$1" >/dev/null 2>&1 &`, program, in.Info().Scratch+"/beat")
		if !exit.OK() {
			s.Fatalf("%v %s", exit, out)
		}
	}
	for in, text := range map[driver.Instance]string{a: "left", b: "right"} {
		if _, out := s.exec(in, "cat", in.Info().Scratch+"/who"); out != text {
			s.Errorf("%q in the environment of %q", out, text)
		}
		s.until("the background process", func() bool {
			var got bytes.Buffer
			return in.Pull(s.Context(), in.Info().Scratch+"/beat", &got) == nil && got.Len() > 3
		})
	}
}

// limits: they are enforced, as seen from inside, and exceeding them is
// reported.
func (s *runner) limits() {
	spec := s.spec("limits")
	spec.Quota, spec.Read = 0.5, 512*unit.MiB
	in := s.create(spec)
	lim, says := in.Info().Limits, s.drv.Doc().Enforces
	for name, held := range map[string]bool{"quota": lim.Quota != nil, "io": lim.Read != nil} {
		if held && says[name] == "" {
			s.Errorf("it enforces %s, but its Doc does not say so", name)
		}
	}
	if lim.Quota == nil {
		s.Logf("a quota of CPU time is not enforced: %s", lim.NotEnforced["quota"])
	} else if *lim.Quota != spec.Quota {
		s.Errorf("a quota of %v CPUs is enforced as %v", spec.Quota, *lim.Quota)
	}
	if lim.Read == nil {
		s.Logf("a limit of I/O is not enforced: %s", lim.NotEnforced["io"])
	} else if *lim.Read != spec.Read {
		s.Errorf("%v per second is enforced as %v", spec.Read, *lim.Read)
	}
	program := in.Info().Agent
	if lim.CPUs == nil {
		s.Logf("CPUs are not enforced: %s", lim.NotEnforced["cpus"])
	} else if exit, out := s.exec(in, program, "subject", "cpus"); strings.TrimSpace(out) != "1" || *lim.CPUs != 1 {
		s.Errorf("CPUs inside: %v %q, limits say %d", exit, out, *lim.CPUs)
	}
	if lim.Memory == nil {
		s.Logf("memory is not enforced: %s", lim.NotEnforced["memory"])
		return
	}
	if s.drv.Doc().EndsOfMemory {
		s.endsOfMemory(in, program)
		return
	}
	if exit, out := s.exec(in, program, "subject", "hog", fmt.Sprint(4*int64(s.o.Memory))); exit.OK() {
		s.Errorf("a program used four times the memory limit: %s", out)
	} else {
		s.Logf("the hog ended with %v", exit)
	}
	if exit, out := s.exec(in, program, "subject", "cpus"); !exit.OK() {
		s.Errorf("the environment is dead afterwards: %v %s", exit, out)
	}
	if m, ok := in.(driver.Meter); ok {
		u, err := m.Usage(s.Context())
		if err != nil || u.CPUSeconds == nil || *u.CPUSeconds <= 0 {
			s.Errorf("usage %+v, %v", u, err)
		}
		if !in.Info().OwnKernel && (u.OOMKills == nil || *u.OOMKills < 1) {
			s.Error("the meter does not report the out-of-memory kill")
		}
	}
}

// endsOfMemory: what ends the whole environment is the subject's failure, and
// every later operation reports that.
func (s *runner) endsOfMemory(in driver.Instance, program string) {
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	for _, argv := range [][]string{{program, "subject", "hog", fmt.Sprint(4 * int64(s.o.Memory))},
		{program, "subject", "cpus"}} {
		exit, err := in.Exec(ctx, conn.Cmd{Argv: argv})
		if !fault.Is(err, fault.Subject) {
			s.Errorf("%q in an environment without memory: %v, %v", argv[2], exit, err)
		}
		s.Logf("%s: %v", argv[2], err)
	}
}

// volumes: one of each backing that needs nothing else. Each has the declared
// size and is not shared.
func (s *runner) volumes() {
	const size = 16 * unit.MiB
	var declared []volume.Volume
	for _, b := range []string{"tmpfs", "dir", "file:ext4"} {
		if slices.Contains(s.o.Backings, b) {
			declared = append(declared, volume.Volume{Path: "/data/" + strings.TrimPrefix(b, "file:"), Backing: b, Size: size})
		}
	}
	var made []driver.Instance
	for _, name := range []string{"vol-a", "vol-b"} {
		spec := s.spec(name)
		spec.Volumes = declared
		made = append(made, s.create(spec))
	}
	for _, v := range declared {
		for _, in := range made {
			at := in.Info().Volumes[v.Path]
			if at == "" {
				s.Fatalf("Info has no path for volume %s", v.Path)
			}
			if exit, out := s.exec(in, "sh", "-c", `test ! -e "$0/mark" && touch "$0/mark"`, at); !exit.OK() {
				s.Errorf("%s is not a separate, empty, writable directory: %v %s", v.Path, exit, out)
			}
		}
		if v.Backing == "dir" {
			continue // as large as the host's file system
		}
		program, at := made[0].Info().Agent, made[0].Info().Volumes[v.Path]
		if exit, out := s.exec(made[0], program, "subject", "fill", at+"/half", fmt.Sprint(int64(size/2))); !exit.OK() {
			s.Errorf("writing half of %s failed: %v %s", v.Path, exit, out)
		}
		exit, out := s.exec(made[0], program, "subject", "fill", at+"/over", fmt.Sprint(int64(size)))
		if exit.OK() || !strings.Contains(out, "no space left") {
			s.Errorf("%s accepted more than its size: %v %q", v.Path, exit, out)
		}
	}
	spec := s.spec("vol-bad")
	spec.Volumes = []volume.Volume{{Path: "/x", Backing: "floppy", Size: size}}
	if in, err := s.drv.Create(s.Context(), s.host, spec); err == nil {
		in.Close(s.Context())
		s.Error("an unknown backing was accepted")
	}
	s.nothing(spec)
}
