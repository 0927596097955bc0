package trial

import (
	"context"
	"net/netip"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/lab/preflight"
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
		s := &side{Contender: c, env: r.manager(c.Host), driver: driver.Named(r.Drivers, c.Driver)}
		r.sides = append(r.sides, s)
		if s.env != nil {
			memory := s.env.Memory()
			if s.driver != nil && s.driver.Doc().Whole {
				memory = 0 // see preflight
			}
			a.Answer = preflight.Enough(a.Answer, s.Contender.Contender, len(s.env.Layout().CPUs), memory)
		}
		if !a.Answer.OK {
			if err := r.dismiss(s, "unavailable: "+a.Answer.String()); err != nil {
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
func (r *runner) answers(ctx context.Context) []preflight.Availability {
	if r.Answers != nil {
		return r.Answers
	}
	return preflight.CheckOn(ctx, r.Plan, r.Drivers, r.host)
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
			return fault.Wrap(fault.Unsupported, "the host that generates the load", err)
		}
		hosts = append(hosts, l)
	}
	// All are looked at before one is taken.
	for _, l := range hosts {
		if err := l.Uplink(ctx); err != nil {
			return fault.Op("host "+l.Name(), err)
		}
	}
	ports := r.servedPorts()
	for _, l := range hosts {
		if err := l.Network(ctx); err != nil {
			return fault.Op("host "+l.Name(), err)
		}
		l.Serve(ports)
	}
	return nil
}

// servedPorts are the ports at which the workloads of the plan start servers, in ascending
// order.
func (r *runner) servedPorts() []uint16 {
	var out []uint16
	for _, s := range r.sides {
		for _, c := range r.Plan.Cells {
			w, err := r.workload(c.Workload)
			if err != nil {
				continue // the cell says why
			}
			if cell, ok := r.Plan.CellOf(s.Name, c.Name); ok {
				if server, ok := w.(execution.Server); ok {
					out = append(out, server.Ports(cell.Params)...)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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

// peerOutside is the other end of a target that is a bare machine: on the machine's own
// network, at its address, or on the machine itself.
func (r *runner) peerOutside(ctx context.Context, t *target, s *side, en *environment) error {
	t.Ports = en.Ports
	g := r.Plan.Generator
	if g == "" {
		t.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		t.Peer, t.PeerAgent, t.PeerDir, t.PeerShares = s.env.Outside(en.CPUSet)
		return nil
	}
	t.generator = r.manager(g)
	t.Peer, t.PeerAgent, t.PeerDir, _ = t.generator.Outside(nil)
	var err error
	t.Addr, err = env.AddressOf(ctx, s.env.Host(), r.Plan.Hosts[s.Host], t.generator.Host())
	return fault.Op("host "+s.Host, err)
}

// needPeer tells whether a workload of the plan has another end.
func (r *runner) needPeer() (bool, error) {
	for _, c := range r.Plan.Cells {
		if _, err := r.workload(c.Workload); err != nil {
			return false, err
		}
	}
	return preflight.NeedsNetwork(r.Plan, r.Drivers, r.Workloads), nil
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
	return preflight.MayCompare(r.Plan, func(contender string) string {
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
	packages, err := preflight.Packages(r.Plan, r.Workloads, s.Contender.Contender)
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
	return r.Run.Append(
		store.Line{Type: store.LineEnvironment, At: r.Now().UTC(), Contender: s.Name, Status: store.Void,
			Reason: reason, Gone: true},
	)
}
