package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// observe reads one trial of a block that counts. The journal's word that the
// subject failed stands, and the parser may find that it did as well.
func (r *Reader) observe(p *plan.Plan, line store.Line) (analysis.Observation, error) {
	o := analysis.Observation{
		Block: line.Block, Position: line.Position, Instance: line.Instance,
		Contender: line.Contender, Cell: line.Cell,
		Failed: line.Status == store.Subject, Reason: line.Reason,
	}
	cell, ok := p.CellOf(line.Contender, line.Cell)
	if !ok {
		return o, fault.New(fault.Invalid, "evidence: %s: the plan has no such cell or contender", describeLine(line))
	}
	w, err := r.find(cell.Workload)
	if err != nil {
		return o, err
	}
	raw, err := r.raw(line)
	if err != nil {
		return o, fault.Op("evidence: "+describeLine(line), err)
	}
	t := TrialOf(w, cell, line, raw)
	t.Backing = backing(p, line.Contender, cell, w)
	o.Gates, o.Path, o.Protocol = failedGates(t), pathUse(t), spoken(t, raw)
	o.Caveat = r.programs.note(cell.Workload, line.Contender, raw)
	if r.onZFSFuse(p, line.Contender, cell, w) && !strings.Contains(o.Caveat, workload.ZFSFuse) {
		o.Caveat = strings.TrimPrefix(o.Caveat+"; "+workload.ZFSFuse, "; ")
	}
	if c := line.Clock; c != nil && !w.Doc().TimedOutside(cell.Params) {
		o.Clock = analysis.ClockReading{Inside: float64(c.InsideNS) / 1e9, Outside: float64(c.OutsideNS) / 1e9,
			Uncertainty: float64(c.UncertaintyNS) / 1e9}
		if c.Lost() {
			o.Caveat = strings.TrimPrefix(o.Caveat+"; "+frozenClock, "; ")
		}
	}
	if o.Failed {
		return o, nil
	}
	values, err := w.Parse(raw, cell.Params)
	switch {
	case fault.Is(err, fault.Subject):
		o.Failed, o.Reason = true, err.Error()
		return o, nil
	case err != nil:
		return o, fault.Wrap(fault.Invalid, "evidence: "+describeLine(line), err)
	}
	o.Values = values
	if a, ok := w.(workload.Absenter); ok {
		o.Absent = a.Absent(raw, cell.Params)
	}
	return o, nil
}

// frozenClock is the caveat of a guest that does not count the time in which it is frozen.
const frozenClock = "the clock of the guest stands still while it is frozen, so its time of day is late"

// raw reads the blobs of a trial, by their names inside its directory.
func (r *Reader) raw(line store.Line) (workload.Raw, error) {
	raw := workload.Raw{}
	for _, f := range line.Raw {
		blob := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
		data, err := r.run.ReadRaw(f)
		if _, tampered := errors.AsType[*store.Tampered](err); tampered && r.unverified {
			if data != nil {
				raw[blob] = data
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		raw[blob] = data
	}
	return raw, nil
}

// failedGates returns the gates that a trial failed, by name, with the reason.
func failedGates(t Trial) map[string]string {
	var out map[string]string
	for _, g := range Gates() {
		if reason := g.Failed(t); reason != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[g.Name] = reason
		}
	}
	return out
}

// trialResult is what a trial says of itself: the result of a native loop, or what a
// workload reads out of another program's output, with its diagnostics; nil where
// there is none.
func trialResult(w workload.Parser, cell plan.Cell, raw workload.Raw) (res *wire.Result, load *workload.Diagnostics) {
	res = &wire.Result{}
	if b, ok := raw[workload.Work]; ok && json.Unmarshal(b, res) == nil {
		return res, nil
	}
	if diagnoser, ok := w.(workload.Diagnoser); ok {
		if t, ok := diagnoser.Diagnose(raw, cell.Params); ok {
			// Another program's answer is not verified, and is not refuted.
			return &wire.Result{Errors: t.Errors, Generator: t.Generator, Check: wire.Check{Verified: true}}, &t
		}
	}
	return nil, nil
}

// TrialOf is what gates see of a trial of w with this raw output. What cannot
// be read is not there: Parse judges it.
func TrialOf(w workload.Parser, cell plan.Cell, line store.Line, raw workload.Raw) Trial {
	t := Trial{Cell: cell, Line: line, TimedOutside: w.Doc().TimedOutside(cell.Params)}
	if t.Work, t.Load = trialResult(w, cell, raw); t.Load != nil {
		t.OwnTime = t.Load.OwnTime
	}
	var path workload.Path
	if b, ok := raw[workload.PathBlob]; ok && json.Unmarshal(b, &path) == nil &&
		(path.Schema == workload.PathSchema || path.Schema == workload.OlderPathSchema) {
		t.Path = &path
	}
	if c, ok := w.(workload.TimeReporter); ok {
		if reported, ok := c.ReportedTime(raw, cell.Params); ok {
			t.Reported = &reported
		}
	}
	return t
}

// backing is that of the volume in which a cell works, "" where there is none.
func backing(p *plan.Plan, contender string, cell plan.Cell, w workload.Parser) string {
	return volume(p, contender, cell, w).Backing
}

// volume is the one in which a cell works, empty where there is none.
func volume(p *plan.Plan, contender string, cell plan.Cell, w workload.Parser) manifest.Volume {
	c, _ := p.Contender(contender)
	for _, v := range c.Volumes {
		if param := w.Doc().Volume; param != "" && v.Path == cell.Params.Text(param) {
			return v
		}
	}
	return manifest.Volume{}
}

// onZFSFuse tells whether a cell works on a volume that the fingerprint of its
// contender calls zfs-fuse.
func (r *Reader) onZFSFuse(p *plan.Plan, contender string, cell plan.Cell, w workload.Parser) bool {
	v := volume(p, contender, cell, w)
	if v.Path == "" {
		return false
	}
	fp, err := r.run.Fingerprint(contender)
	return err == nil && workload.OnZFSFuse(fp.Facts["fs."+v.Path])
}

// facts reads the fingerprints, and adds what drivers said of the
// environments, which limits are enforced, and what the lab file declared:
//
//	driver.NAME    what the driver knows of what ran: accelerator, runtime
//	enforced.NAME  "yes", or why a limit (cpus, memory) is not held
//	volume.PATH    the declared backing of a volume
//	host-cache.PATH  whether the host's page cache holds its blocks, too
//	program.WORKLOAD.NAME  what a workload found out of the programs it ran
//	host.cpu-time  what told the time of the CPUs: schedstat, cpuacct, kstat or ticks
//
// Meant to differ is what follows from the choice of driver and its options
// (driver.NAME), and what the lab file itself gives to one contender and not
// to the baseline: sizes of CPUs and memory, and tuning. Everything else is a
// confounder, the kernel of a machine included: another kernel version is not
// what a technology costs.
func (r *Reader) facts(s *story, d *analysis.Data) error {
	d.Facts = map[string]map[string]string{}
	meant := map[string]bool{}
	for i, c := range s.plan.Contenders {
		facts, err := r.factsOf(s, c)
		if err != nil {
			return err
		}
		own := map[string]string{}
		for name, value := range facts {
			if short, ok := strings.CutPrefix(name, "driver."); ok {
				own[short] = value
				meant[name] = true
			}
		}
		if facts != nil {
			d.Facts[c.Name] = facts
			d.Contenders[i].Facts = own
		}
		base, _ := s.plan.Contender(s.plan.Baseline)
		for _, name := range declared(c, base) {
			meant[name] = true
		}
	}
	d.Meant = sorted(meant)
	d.Hosts = standings(s.plan)
	return nil
}

// factsOf returns what is known of a contender; nil if it never came up.
func (r *Reader) factsOf(s *story, c plan.Contender) (map[string]string, error) {
	facts := map[string]string{}
	fp, err := r.run.Fingerprint(c.Name)
	up := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	maps.Copy(facts, fp.Facts)
	for _, l := range s.lines {
		if l.Type != store.LineEnvironment || l.Contender != c.Name || l.Status != store.OK {
			continue
		}
		up = true
		for name, value := range l.Facts {
			facts["driver."+name] = value
		}
		if l.Limits != nil {
			for _, name := range []string{"cpus", "memory"} {
				facts["enforced."+name] = "yes"
			}
			// A limit that some contender has is enforced on those that have
			// none, too: only one that is not held differs from it.
			if quota, io := limitsAsked(s.plan); quota || io {
				maps.Copy(facts, enforcedLimits(c, *l.Limits, quota, io))
			}
			for name, why := range l.Limits.NotEnforced {
				facts["enforced."+name] = "no: " + why
			}
		}
	}
	if !up {
		return nil, nil
	}
	for _, v := range c.Volumes {
		facts["volume."+v.Path] = fmt.Sprintf("%s %s", v.Backing, v.Size)
		for name, value := range v.Properties {
			facts["volume."+v.Path+"."+name] = value
		}
	}
	return facts, nil
}

// limitsAsked tells whether any contender has a quota of CPU time, or limits of I/O.
func limitsAsked(p *plan.Plan) (quota, io bool) {
	for _, c := range p.Contenders {
		quota = quota || c.Quota > 0
		io = io || c.IO != (manifest.IO{})
	}
	return quota, io
}

// enforcedLimits says whether a contender's quota and limits of I/O are enforced, of
// those that the run asks for.
func enforcedLimits(c plan.Contender, l facts.Limits, quota, io bool) map[string]string {
	out := map[string]string{}
	for name, x := range map[string]struct{ asked, lost bool }{
		"quota": {quota, c.Quota > 0 && l.Quota == nil},
		"io":    {io, c.IO.Read > 0 && l.Read == nil || c.IO.Write > 0 && l.Write == nil},
	} {
		switch {
		case x.lost:
			out["enforced."+name] = "no: the driver " + c.Driver + " holds none"
		case x.asked:
			out["enforced."+name] = "yes"
		}
	}
	return out
}

// declared names the facts in which the lab file makes a contender differ
// from the baseline.
func declared(c, base plan.Contender) []string {
	var out []string
	if c.CPUs != base.CPUs {
		out = append(out, "cpu.count", "limit.cgroup.cpu", "limit.cgroup.cpuset")
	}
	if c.Quota != base.Quota {
		out = append(out, "limit.cgroup.cpu")
	}
	if c.Memory != base.Memory {
		out = append(out, "memory", "limit.cgroup.memory")
	}
	for name, value := range c.Tuning {
		if base.Tuning[name] != value {
			out = append(out, "sysctl."+name)
		}
	}
	out = append(out, declaredVolumes(c, base)...)
	out = append(out, declaredVolumes(base, c)...)
	for name := range base.Tuning {
		if _, ok := c.Tuning[name]; !ok {
			out = append(out, "sysctl."+name)
		}
	}
	return out
}

// declaredVolumes names the facts of c's volumes that are otherwise in base:
// what a lab file compares file systems by.
func declaredVolumes(c, base plan.Contender) []string {
	var out []string
	for _, v := range c.Volumes {
		var other manifest.Volume
		for _, b := range base.Volumes {
			if b.Path == v.Path {
				other = b
			}
		}
		if other.Backing != v.Backing {
			out = append(out, "volume."+v.Path, "fs."+v.Path, "host-cache."+v.Path)
		}
		for name, value := range v.Properties {
			if other.Properties[name] != value {
				out = append(out, "volume."+v.Path+"."+name)
			}
		}
	}
	return out
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
