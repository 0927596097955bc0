// Package preflight checks a plan before a run: whether drivers, programs, files,
// packages, volumes and CPUs exist where contenders need them. It changes nothing on any
// host.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Site is what Inspect reads. The caller provides everything that has effects.
type Site struct {
	Drivers   []driver.Driver
	Workloads []execution.Runner
	// Way is the way to a host by its name, Size its CPUs and its memory, and
	// State the folder on it below which environments are made.
	Way   func(host string) (conn.Conn, error)
	Size  func(host string) (cpus int, memory unit.Bytes, err error)
	State func(host string) string
	// Cache is the folder on this machine that has the images.
	Cache string
	// Sources is the folder that the files of the plan are relative to; "" is unknown.
	Sources string
	// Folder is where the lab file was when a run began that continues; "" is Sources.
	Folder string
}

// Survey is what is known about a plan before anything is created.
type Survey struct {
	// Wrong are cells that can have no trial, each an error of kind
	// fault.Invalid that names the cell.
	Wrong []error
	// Answers say of every contender whether it can run, in the plan's order.
	Answers []Availability
	// Lacks are programs that hosts do not have, Absent files.
	Lacks  []Lack
	Absent []Absence
	// Unfit are cells that the environments of some contenders cannot have.
	Unfit []Unfit
	// LeftOut is what a run leaves out because of Lacks, Absent and Unfit.
	LeftOut []LeftOut
	// Unmet lists what the hosts cannot provide for all contenders together: disk
	// space and memory at the same time, or the route to the load generator.
	Unmet []string
	// Notes list the deviations from what the lab file asks for.
	Notes []string
	plan  *plan.Plan
}

// Inspect collects what can be known about p before anything is created. It
// changes nothing on any host.
func Inspect(ctx context.Context, p *plan.Plan, site Site) (Survey, error) {
	s := Survey{plan: p, Wrong: append(CheckCells(p, site.Workloads),
		CheckMachines(p, site.Drivers, site.Workloads)...)}
	for _, d := range site.Drivers {
		if r, ok := d.(driver.Relative); ok {
			r.SetFolder(cmp.Or(site.Folder, site.Sources))
		}
	}
	v := inspector{Site: site, plan: p, peer: NeedsNetwork(p, site.Drivers, site.Workloads), known: map[string]string{}}
	for _, a := range CheckOn(ctx, p, site.Drivers, site.Way) {
		c, _ := p.Contender(a.Contender)
		a.Answer = inFlags(v.checkFiles(ctx, v.checkContender(ctx, a.Answer, c), c), c.Contender)
		s.Answers = append(s.Answers, a)
	}
	var err error
	if s.Lacks, err = ProgramsOn(ctx, p, site.Drivers, site.Workloads, site.Way); err != nil {
		return s, err
	}
	s.Absent = v.absentFiles(ctx, s.Able)
	for i := range s.Absent {
		v.addImageRemedy(&s.Absent[i])
	}
	s.Unfit = v.unfitCells(ctx, s.Able)
	s.LeftOut = v.leaveOut(s)
	s.Unmet = append(v.crowdedDisks(ctx, s.Able), v.checkUplinks(ctx)...)
	s.Notes = v.allNotes(ctx, s.Able)
	return s, nil
}

// addImageRemedy adds to the remedy what an image contains, if a lacks its file in one that
// bakeoff builds, and which images must have it if bakeoff does not build them.
func (v inspector) addImageRemedy(a *Absence) {
	var given []string
	for _, c := range v.plan.Contenders {
		if c.Image == "" || path.IsAbs(c.Image) || !slices.Contains(a.Contenders, c.Name) {
			continue
		}
		r, err := reference.Parse(c.Image)
		switch {
		case err != nil || r.Kind == reference.Packages:
			a.Built = true
		case r.Kind != reference.Disk && !slices.Contains(given, c.Image): // bakeoff places no files in a disk
			given = append(given, c.Image)
		}
	}
	if a.Param == "argv" && path.IsAbs(a.Path) && (a.Built || len(given) > 0) {
		a.Fix += ", or create it in prepare"
	}
	a.Given = given
	if len(given) > 0 {
		a.Fix += ", or place it with files: bakeoff installs no packages in " + strings.Join(given, ", ")
	}
	if !a.Built {
		return
	}
	a.Fix += ", or add the package that contains it to packages: an image contains only the base system of its " +
		"distribution (sh, perl), the packages that the workloads of the lab file need, and those of packages"
}

// NeedsNetwork reports whether the plan needs the experiment's network: a workload has a load
// generator, or a volume a server.
func NeedsNetwork(p *plan.Plan, drivers []driver.Driver, workloads []execution.Runner) bool {
	if !slices.ContainsFunc(p.Contenders, func(c plan.Contender) bool { return !isWhole(drivers, c) }) {
		return false
	}
	if slices.ContainsFunc(p.Contenders, func(c plan.Contender) bool {
		return slices.ContainsFunc(c.Volumes, func(v manifest.Volume) bool { return v.Backing == volume.NFS })
	}) {
		return true
	}
	return slices.ContainsFunc(p.Cells, func(c plan.Cell) bool {
		w := execution.Named(workloads, c.Workload)
		return w != nil && needsPeer(p, c, w.Doc())
	})
}

// needsPeer tells whether a cell has another end as any contender runs it.
func needsPeer(p *plan.Plan, cell plan.Cell, doc workload.Doc) bool {
	return slices.ContainsFunc(variantsOf(p, cell), func(v variant) bool { return doc.NeedsPeer(v.Params) })
}

// Able tells whether there can be environments of a contender, as far as is known.
func (s Survey) Able(contender string) bool {
	return slices.ContainsFunc(s.Answers, func(a Availability) bool { return a.Contender == contender && a.Answer.OK })
}

// Count returns how many of the contenders can run; the twin, which is the
// baseline once more, is none of them.
func (s Survey) Count() (able, all int) {
	gone, _ := s.Rest()
	for _, c := range s.plan.Contenders {
		if c.TwinOf != "" {
			continue
		}
		all++
		if !gone[c.Name] {
			able++
		}
	}
	return able, all
}

// Refusal returns why the plan cannot run at all: no comparison is possible. It
// is nil if at least one is possible, of kind fault.Invalid for errors in the lab
// file, and of kind fault.Unsupported for what the hosts lack.
func (s Survey) Refusal() error {
	if len(s.Wrong) > 0 {
		return errors.Join(s.Wrong...)
	}
	if err := MayCompare(s.plan, gone(s.Answers)); err != nil {
		return err
	}
	var errs []error
	for _, a := range s.Absent {
		if a.Everywhere {
			errs = append(errs, fault.WithFix(fault.New(fault.Invalid, "cell %s: %w", a.Cell, a), a.Fix))
		}
	}
	var unfit []error
	for _, u := range s.Unfit {
		if slices.Contains(u.Contenders, s.plan.Baseline) {
			unfit = append(unfit, u)
		}
	}
	if len(unfit) == len(s.plan.Cells) {
		errs = append(errs, unfit...)
	}
	for _, text := range s.Unmet {
		errs = append(errs, fault.New(fault.Unsupported, "%s", text))
	}
	if len(errs) == 0 {
		return MayCompare(s.plan, gone(s.Settled()))
	}
	return errors.Join(errs...)
}

// Short reports whether the results of a run would lack some cells.
func (s Survey) Short() bool {
	able, all := s.Count()
	return able < all || len(s.Lacks)+len(s.Absent)+len(s.Unfit) > 0
}

// gone returns a function that says why a contender cannot run; "" while it can.
func gone(answers []Availability) func(contender string) string {
	return func(contender string) string {
		for _, a := range answers {
			if a.Contender == contender && !a.Answer.OK {
				return "unavailable: " + a.Answer.String()
			}
		}
		return ""
	}
}

// MayCompare refuses a run in which no comparison is possible: without its
// baseline, or with no other contender. gone returns why a contender takes no part.
func MayCompare(p *plan.Plan, gone func(contender string) string) error {
	if why := gone(p.Baseline); why != "" {
		return fault.New(fault.Unsupported, "the baseline %s cannot run here: %s", p.Baseline, why)
	}
	alive, all := 0, 0
	var whys []string
	names := map[string]string{} // why: the contenders
	for _, c := range p.Contenders {
		if c.TwinOf != "" {
			continue
		}
		all++
		switch why := gone(c.Name); {
		case why == "":
			alive++
		case names[why] != "":
			names[why] += ", " + c.Name
		default:
			names[why] = c.Name
			whys = append(whys, why)
		}
	}
	if alive < 2 && all > 1 {
		for i, why := range whys {
			whys[i] = names[why] + ": " + why
		}
		return fault.New(fault.Unsupported, "no contender but the baseline can run here: %s", strings.Join(whys, "; "))
	}
	return nil
}

// checkUplinks reports where load cannot come from another host: bakeoff cannot reach
// that host, or cannot use an interface on the route.
func (v inspector) checkUplinks(ctx context.Context) []string {
	var out []string
	if !v.peer || v.plan.Generator == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(v.plan.Hosts)) {
		host, err := v.Way(name)
		link := v.plan.Hosts[name].Uplink
		switch {
		case err != nil && name != v.plan.Generator:
			continue // the contenders there have this as their reason
		case err == nil && link != "":
			err = netns.Unused(ctx, host, link)
		}
		if err != nil {
			out = append(out, fault.Op("host "+name, err).Error())
		}
	}
	return out
}

// inspector inspects one plan.
type inspector struct {
	Site
	plan  *plan.Plan
	peer  bool
	known map[string]string // what was found out already, by what was asked
}

// askOnce returns what ask says to a question, which is asked once.
func (v inspector) askOnce(question string, ask func() string) string {
	if _, ok := v.known[question]; !ok {
		v.known[question] = ask()
	}
	return v.known[question]
}

// driver is that of a contender, nil if there is none.
func (v inspector) driver(c plan.Contender) driver.Driver { return driver.Named(v.Drivers, c.Driver) }

func hostOf(c plan.Contender) string { return cmp.Or(c.Host, env.LocalHost) }

// askedAt names the place of the lab file at which a contender asks for key.
func askedAt(c plan.Contender, key string) string { return locationOf(c.Contender, key) }

// allNotes says which limits are asked for that nothing holds.
func (v inspector) allNotes(ctx context.Context, able func(string) bool) []string {
	var out []string
	for _, c := range v.plan.Contenders {
		d := v.driver(c)
		if d == nil || c.TwinOf != "" || !able(c.Name) {
			continue
		}
		holds := d.Doc().Enforces
		for key, wanted := range map[string]bool{"quota": c.Quota > 0, "io": c.IO.Read > 0 || c.IO.Write > 0} {
			if wanted && holds[key] == "" {
				out = append(out, fmt.Sprintf("%s asks for a limit of %s%s, which the driver %s cannot enforce: it will run "+
					"without the limit; remove the limit from all contenders, or use a driver that enforces it",
					c.Name, key, askedAt(c, key), c.Driver))
			}
		}
	}
	slices.Sort(out)
	return slices.Concat(v.rebootNotes(able), v.standingNotes(able), v.bareNotes(able),
		v.cellCaveats(ctx, able), v.fewValues(), v.sharedDevices(able), out, v.uncheckedPackages(ctx, able),
		v.uncertainFiles(ctx, able), v.memoryNotes(able))
}

// bareNotes says how the two drivers of a bare machine differ where a plan compares them.
func (v inspector) bareNotes(able func(string) bool) []string {
	names := map[string]string{} // driver: its first contender
	for _, c := range v.plan.Contenders {
		if able(c.Name) && c.TwinOf == "" && names[c.Driver] == "" {
			names[c.Driver] = c.Name
		}
	}
	if names["host"] == "" || names["machine"] == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s (driver host) has control groups that limit CPUs and memory, and the experiment's "+
		"network; %s (driver machine) has no control groups, and uses the machine's network", names["host"],
		names["machine"])}
}

// fewValues says which cells have too few values for a percentile that gets a verdict.
func (v inspector) fewValues() []string {
	var out []string
	for _, cell := range v.plan.Cells {
		if w, ok := execution.Named(v.Workloads, cell.Workload).(workload.Counted); ok {
			for _, form := range variantsOf(v.plan, cell) {
				if caveat, fix := w.Few(form.Params, cell.Primary); caveat != "" {
					where := cell.Name
					if form.own {
						where += " in " + strings.Join(form.contenders, ", ")
					}
					out = append(out, fmt.Sprintf("cell %s: %s; %s", where, caveat, fix))
				}
			}
		}
	}
	return out
}

// cellCaveats says which cells will not measure what one may expect of them, and in
// which contenders.
func (v inspector) cellCaveats(ctx context.Context, able func(string) bool) []string {
	var out []string
	for _, cell := range v.plan.Cells {
		runner := execution.Named(v.Workloads, cell.Workload)
		if runner == nil {
			continue
		}
		w, cautious := runner.(workload.Cautious)
		var where lists.Groups[string, string]
		for _, c := range v.plan.Contenders {
			if c.TwinOf != "" || !able(c.Name) {
				continue
			}
			params := c.CellOf(cell.Cell).Params
			on := v.storageOf(ctx, c, runner.Doc().Volume, params)
			caveat, fix := "", ""
			if cautious {
				caveat, fix = w.Caveat(params, on)
			} else if workload.OnZFSFuse(on.FileSystem) {
				caveat = workload.ZFSFuse
			}
			if caveat == "" {
				continue
			}
			if fix != "" {
				caveat += "; " + fix
			}
			where.Add(caveat, c.Name)
		}
		for text, names := range where.All() {
			out = append(out, fmt.Sprintf("cell %s in %s: %s", cell.Name, strings.Join(names, ", "), text))
		}
	}
	return out
}

// storageOf is the volume of a contender that the parameter names.
func (v inspector) storageOf(ctx context.Context, c plan.Contender, name string, params param.Values) workload.Storage {
	on := workload.Storage{Memory: int64(c.Memory)}
	i := slices.IndexFunc(c.Volumes, func(vol manifest.Volume) bool { return name != "" && vol.Path == params.Text(name) })
	if i < 0 {
		return on
	}
	on.Properties = c.Volumes[i].Properties
	backing := c.Volumes[i].Backing
	on.FileSystem = v.askOnce("file system of "+hostOf(c)+" "+backing, func() string {
		if host, err := v.Way(hostOf(c)); err == nil {
			kind, cached := volume.FileSystem(ctx, host, backing)
			return fmt.Sprintf("%s %v", kind, cached)
		}
		return ""
	})
	on.FileSystem, on.HostCaches = strings.CutSuffix(on.FileSystem, " true")
	on.FileSystem = strings.TrimSuffix(on.FileSystem, " false")
	return on
}

// memoryNotes says where the environments of a block ask together for more than
// their host has: they are all there at the same time, at rest or not.
func (v inspector) memoryNotes(able func(string) bool) []string {
	sum := map[string]unit.Bytes{}
	var hosts, out []string
	for _, c := range v.plan.Contenders {
		if c.System != "" || !able(c.Name) || isWhole(v.Drivers, c) {
			continue
		}
		if h := hostOf(c); sum[h] == 0 {
			hosts = append(hosts, h)
		}
		sum[hostOf(c)] += c.Memory
	}
	for _, h := range hosts {
		if _, memory, err := v.Size(h); err == nil && memory > 0 && sum[h] > memory {
			out = append(out, fmt.Sprintf("the environments of a block (the twin's, too) may use %s of memory together, and "+
				"%s has %s. It may swap, which slows all of them; write a smaller memory:",
				wholeMiB(sum[h]), h, wholeMiB(memory)))
		}
	}
	return out
}
