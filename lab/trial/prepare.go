package trial

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// prepare finds the drivers, asks each whether it can run here, makes the
// network and the images, and moves the controller to its own CPUs.
func (r *runner) prepare(ctx context.Context) error {
	needPeer, err := r.needPeer()
	if err != nil {
		return err
	}
	for _, a := range r.answers(ctx) {
		c, _ := r.Plan.Contender(a.Contender) // Check answers for those of the plan
		s := &side{Contender: c, env: r.manager(c.Host)}
		if d := slices.IndexFunc(r.Drivers, func(d driver.Driver) bool { return d.Doc().Name == s.Driver }); d >= 0 {
			s.driver = r.Drivers[d]
		}
		r.sides = append(r.sides, s)
		if s.env != nil {
			a.Answer = Enough(a.Answer, s.Contender.Contender, len(s.env.Layout().CPUs), s.env.Memory())
		}
		if !a.Answer.OK {
			if err := r.dismiss(s, "unavailable: "+sentence(a.Answer)); err != nil {
				return err
			}
		}
	}
	if err := r.mayStart(); err != nil {
		return err
	}
	if needPeer {
		r.emit(Event{Kind: Preparing, Text: "making the experiment's network"})
		if err := r.networks(ctx); err != nil {
			return err
		}
	}
	if err := r.images(ctx); err != nil {
		return err
	}
	if err := r.mayStart(); err != nil {
		return err
	}
	return r.settle(ctx)
}

// answers says of every contender whether it can run.
func (r *runner) answers(ctx context.Context) []Availability {
	if r.Answers != nil {
		return r.Answers
	}
	return CheckOn(ctx, r.Plan, r.Drivers, r.host)
}

// networks makes the experiment's network on every host that takes part, the
// generator's included.
func (r *runner) networks(ctx context.Context) error {
	var hosts []*env.Manager
	for _, s := range r.sides {
		// The network of a machine would not outlive its first reboot.
		if s.gone == "" && s.env != nil && !s.driver.Doc().Whole && !slices.Contains(hosts, s.env) {
			hosts = append(hosts, s.env)
		}
	}
	if r.Plan.Generator != "" {
		l := r.manager(r.Plan.Generator)
		if l == nil {
			_, err := r.host(r.Plan.Generator)
			return fault.Wrap(fault.Unsupported, "the host that load comes from", err)
		}
		hosts = append(hosts, l)
	}
	// All are looked at before one is taken.
	for _, l := range hosts {
		if err := l.Uplink(ctx); err != nil {
			return fault.Op("host "+l.Name(), err)
		}
	}
	for _, l := range hosts {
		if err := l.Network(ctx); err != nil {
			return fault.Op("host "+l.Name(), err)
		}
	}
	return nil
}

// peer is the other end of a target's network: on another host, with all of its
// CPUs, or on the contender's own.
func (r *runner) peer(t *target, s *side, subject []int) {
	if g := r.Plan.Generator; g != "" {
		t.generator = r.manager(g)
		t.Peer, t.PeerAgent, t.PeerDir = t.generator.Peer(nil)
		return
	}
	t.Peer, t.PeerAgent, t.PeerDir = s.env.Peer(subject)
	t.PeerShares = s.env.Layout().Shared(len(subject))
}

// Enough turns a driver's answer into a refusal if a contender asks for more than
// its host has. With too few CPUs, the contender would silently get fewer than the
// lab file says. With too little memory, no limit would apply, and a VM would see
// more memory than exists. Memory of 0 bytes means unknown and refuses nothing.
func Enough(a driver.Availability, c manifest.Contender, cpus int, memory unit.Bytes) driver.Availability {
	if !a.OK {
		return a
	}
	switch {
	case c.CPUs > cpus:
		return driver.Availability{Reason: fmt.Sprintf("it asks for %d CPUs%s, and its host has %d", c.CPUs,
			place(c, "cpus"), cpus),
			Fix: fmt.Sprintf("write cpus: %d or less", cpus), Facts: a.Facts}
	case memory > 0 && c.Memory > memory:
		return driver.Availability{Reason: fmt.Sprintf("it asks for %s of memory%s, and its host has %s", c.Memory,
			place(c, "memory"), rounded(memory)),
			Fix: fmt.Sprintf("write memory: %s or less", rounded(memory)), Facts: a.Facts}
	}
	return a
}

// rounded is b in whole MiB, as people write memory; never more than b.
func rounded(b unit.Bytes) unit.Bytes { return b - b%unit.MiB }

// needPeer tells whether a workload of the plan has another end.
func (r *runner) needPeer() (bool, error) {
	for _, c := range r.Plan.Cells {
		if _, err := r.workload(c.Workload); err != nil {
			return false, err
		}
	}
	return peered(r.Plan, r.Drivers, r.Workloads), nil
}

// settle moves the controller, on every host, to the CPUs that no subject
// there uses.
func (r *runner) settle(ctx context.Context) error {
	for _, l := range r.managers() {
		if err := r.settleOn(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) settleOn(ctx context.Context, l *env.Manager) error {
	most := 1
	for _, s := range r.sides {
		if s.env == l {
			most = max(most, s.CPUs)
		}
	}
	layout := l.Layout()
	if err := l.Settle(ctx, layout.Others(layout.Subject(most))); err != nil {
		return fault.Op("settle the controller on its CPUs on "+l.Name(), err)
	}
	return nil
}

// manager returns that of a host, nil where there is none.
func (r *runner) manager(host string) *env.Manager {
	if host == "" || host == env.LocalHost {
		return r.Env
	}
	return r.Hosts[host]
}

// managers returns those on which contenders stand that take part, each once.
func (r *runner) managers() []*env.Manager {
	var out []*env.Manager
	for _, s := range r.sides {
		if s.gone == "" && s.env != nil && !slices.Contains(out, s.env) {
			out = append(out, s.env)
		}
	}
	return out
}

// host is the way to a host of the plan.
func (r *runner) host(name string) (conn.Conn, error) {
	if l := r.manager(name); l != nil {
		return l.Host(), nil
	}
	if b := r.Boxes[name]; b != nil {
		return b.At, nil
	}
	if err := r.Unreached[name]; err != nil {
		return nil, err
	}
	return nil, fault.New(fault.Unsupported, "host %q is not reached", name)
}

// mayStart refuses a run in which nothing could be compared. The progress has told
// the reasons: the error does not repeat them.
func (r *runner) mayStart() error {
	return mayCompare(r.Plan, func(contender string) string {
		for _, s := range r.sides {
			if s.Name == contender && s.gone != "" {
				return "see above"
			}
		}
		return ""
	})
}

// images builds what the contenders are made from. An image that cannot be
// built takes its contenders out; the others go on.
func (r *runner) images(ctx context.Context) error {
	for _, s := range r.sides {
		if s.gone != "" || s.env == nil {
			continue
		}
		if err := r.imageOf(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// imageOf gets what a contender is made from to its host.
func (r *runner) imageOf(ctx context.Context, s *side) error {
	packages, err := Packages(r.Plan, r.Workloads, s.Contender.Contender)
	if err != nil {
		return err
	}
	doc := s.driver.Doc()
	from := env.OriginOf(s.Contender.Contender)
	if doc.Image && !s.env.Cached(doc, from, packages, s.Options) {
		r.emit(Event{Kind: Preparing, Contender: s.Name, Text: "preparing the image " + s.Image})
	}
	s.image, err = s.env.ImageWith(ctx, doc, from, packages, s.Options, s.Files)
	if err == nil || ctx.Err() != nil {
		return nil // interrupted; the loop over blocks says so
	}
	return r.dismiss(s, "no image: "+describe(err))
}

// dismiss takes a contender out of the run, and journals why.
func (r *runner) dismiss(s *side, reason string) error {
	s.gone = reason
	r.emit(Event{Kind: Unavailable, Contender: s.Name, Text: reason})
	return r.Run.Append(store.Line{Type: store.LineEnvironment, At: r.Now().UTC(), Contender: s.Name, Status: store.Void,
		Reason: reason, Gone: true})
}

// Packages returns the Debian packages of a contender's image, sorted: those that
// the plan's workloads need inside an environment, and the contender's own. All
// contenders get those of all workloads, so that images differ only where intended.
func Packages(p *plan.Plan, workloads []execution.Runner, c manifest.Contender) ([]string, error) {
	out := slices.Clone(c.Packages)
	for _, cell := range p.Cells {
		i := slices.IndexFunc(workloads, func(w execution.Runner) bool { return w.Doc().Name == cell.Workload })
		if i < 0 {
			return nil, fault.New(fault.Unsupported, "there is no workload %q", cell.Workload)
		}
		for _, form := range variantsOf(p, cell) {
			_, packages := workloads[i].Doc().Needed(form.Params)
			out = append(out, packages["debian"]...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// CheckCells returns an error for each cell that can have no trial, as far as
// its workload knows before anything is created. The errors are of kind
// fault.Invalid and name the cell, and the contender if it has parameters or
// variables of its own.
func CheckCells(p *plan.Plan, workloads []execution.Runner) (out []error) {
	for _, cell := range p.Cells {
		for _, v := range variantsOf(p, cell) {
			op := "cell " + cell.Name
			if v.own {
				op += ", contender " + v.contenders[0]
			}
			for _, w := range workloads {
				checker, ok := w.(execution.Checker)
				if !ok || w.Doc().Name != cell.Workload {
					continue
				}
				if err := checker.Check(v.Params); err != nil {
					out = append(out, fault.Op(op, err))
				}
			}
		}
		out = append(out, twice(p, cell)...)
		out = append(out, nameless(p, cell, workloads)...)
	}
	return out
}

// CheckOn asks the driver of every contender whether it can run on its host, in
// the plan's order, and changes nothing. hosts returns a host by its name. If a
// contender needs another system on its host, CheckOn leaves the question until
// that system is booted.
func CheckOn(ctx context.Context, p *plan.Plan, drivers []driver.Driver,
	hosts func(name string) (conn.Conn, error)) []Availability {
	var out []Availability
	installers := map[string]Installer{}
	for _, c := range p.Contenders {
		a := Availability{Contender: c.Name, Driver: c.Driver}
		i := slices.IndexFunc(drivers, func(d driver.Driver) bool { return d.Doc().Name == c.Driver })
		host, err := hosts(cmp.Or(c.Host, env.LocalHost))
		switch {
		case i < 0:
			a.Answer = driver.Availability{Reason: fmt.Sprintf("there is no driver %q", c.Driver)}
		case err != nil:
			a.Answer = driver.Availability{Reason: err.Error()}
		case c.System != "":
			// Asked in another system, the answer would be about that.
			a.Answer = driver.Availability{OK: true, Facts: map[string]string{"checked": "when " + c.Host + " is booted into " +
				c.System}}
		default:
			if err := checkImage(ctx, host, drivers[i].Doc(), c.Contender); err != nil {
				a.Answer = driver.Availability{Reason: err.Error()}
				break
			}
			by := func() Installer {
				if _, ok := installers[c.Host]; !ok {
					installers[c.Host] = InstallerOf(ctx, host)
				}
				return installers[c.Host]
			}
			if a.Answer = drivers[i].Check(ctx, host, c.Options); len(a.Answer.Programs) > 0 {
				a.Answer = by().Fit(a.Answer)
			}
			if onHostsRoot(drivers[i].Doc(), c.Contender) {
				a.Answer = provided(ctx, a.Answer, c.Contender, host, by)
			}
		}
		out = append(out, a)
	}
	return out
}

// checkImage tells whether there can be what a contender is made from.
func checkImage(ctx context.Context, host conn.Conn, d driver.Doc, c manifest.Contender) error {
	if d.Folder && path.IsAbs(c.Image) {
		_, err := conn.FilesOf(host).ReadDir(ctx, c.Image)
		return fault.WithFix(fault.Wrap(fault.Invalid, "image "+c.Image, err), "name a folder on the host with a root in it")
	}
	return env.CheckImage(d, c.Image, c.Options)
}

// sentence writes why something is not available and what would help.
func sentence(a driver.Availability) string {
	s := a.Reason
	if a.Fix != "" {
		s += "; " + a.Fix
	}
	return s
}
