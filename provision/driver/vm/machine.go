package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/machine"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// hypervisor runs the machines.
const hypervisor = guest.Hypervisor("qemu")

// bootTime bounds the time until the agent in a machine answers. An emulated one boots in some
// seconds, on a busy host in many.
const bootTime = 3 * time.Minute

// checkMachine refuses what a machine cannot be as a contender.
func checkMachine(g manifest.Guest, spec driver.Spec, refuse func(path string, value any, reason, allowed string)) {
	if spec.CPUs > 0 && g.VCPUs > 1 && g.VCPUs != spec.CPUs {
		refuse("vcpus", g.VCPUs, "the lab file gives the contender cpus: "+strconv.Itoa(spec.CPUs),
			"remove vcpus: the machine has as many as the contender")
	}
	for i, d := range g.Disks {
		if d.NoCreate && d.Media != "cdrom" {
			refuse(fmt.Sprintf("disks.%d.nocreate", i), d.Path, "the machines of all blocks would write to the same disk",
				"write image: disk:FILE instead, so that each machine has a copy")
		}
	}
}

// backings are the backings of the volumes of machines: those that the kernel of a service
// mounts without further modules.
func backings() []string {
	return slices.DeleteFunc(guest.Backings(), func(b string) bool {
		kind, _ := volume.MountType(volume.Volume{Backing: b})
		return b != volume.Tmpfs && kind != "ext4" && kind != "ext3"
	})
}

// placed starts the machine of a guest as an environment: with its label, its CPUs, its network
// and its volumes.
type placed struct {
	d      *Driver
	host   conn.Conn
	spec   driver.Spec
	hosted *guest.Hosted // nil until it starts
}

// madeMachine is a machine that was created for an environment.
type madeMachine struct {
	*guest.Hosted
	made *made
}

// Close deletes the guest.
func (in *madeMachine) Close(ctx context.Context) error { return in.made.end(ctx, in.Hosted.Close) }

// Diagnose adds the console of the machine.
func (in *madeMachine) Diagnose(ctx context.Context) []byte {
	return withConsoleOf(in.Hosted.Diagnose(ctx), in.made.guest)
}

// Place says that QEMU runs in the control group of the environment.
func (p *placed) Place(ctx context.Context, m *qemu.Machine) (at qemu.Place, err error) {
	p.spec.Memory = m.Memory
	doc := p.d.Doc()
	doc.Backings = backings()
	if err := guest.Check(doc, p.spec, unit.MiB); err != nil {
		return at, err
	}
	if p.hosted, err = hypervisor.New(ctx, p.d, p.host, p.spec); err != nil {
		p.hosted = nil // another environment may have this label
		return at, err
	}
	m.Label, m.CPUs, m.Ports, m.Watch = p.spec.Label, p.spec.CPUs, nil, p.spec.Watch
	if err := m.Choose(ctx, p.host, p.spec.Memo, p.spec.Agent, "", ""); err != nil {
		return at, err
	}
	at = qemu.Place{Host: p.host, Launch: p.hosted.Launch, Agent: p.spec.Agent, Timeout: bootTime}
	if n := p.spec.Network; n != nil {
		at.Namespace, m.Tap, m.MAC = n.Namespace, netns.Tap(p.spec.Label), n.MAC
		m.Append += " bakeoff.addr=" + n.Addr.String()
	}
	return at, p.addVolumes(ctx, m)
}

func (p *placed) addVolumes(ctx context.Context, m *qemu.Machine) error {
	for i, v := range p.spec.Volumes {
		if v.Backing == volume.Tmpfs {
			continue
		}
		at, cached, err := volume.GuestDisk(ctx, p.host, p.spec.Dir, v, false)
		if err != nil {
			return fault.Op("volume "+v.Path, err)
		}
		p.hosted.Properties.HostCache[v.Path] = cmp.Or(cached, volume.CacheUsed)
		m.Disks = append(m.Disks, qemu.Disk{Serial: qemu.VolumeSerial(i), Path: at, Format: "raw",
			Controller: qemu.VirtioBlk, Cache: "writeback", AIO: "threads"})
	}
	return nil
}

// Await returns when the agent in the machine answers and has set it up.
func (p *placed) Await(ctx context.Context, g *qemu.Guest) error {
	in := p.hosted
	in.Details = func(context.Context) []byte { return fmt.Appendf(nil, "QEMU said:\n%s\n", g.Messages()) }
	if p.spec.Watch {
		g.ObserveBoot(in)
	}
	rw, err := g.DialAgent(ctx)
	if err == nil {
		err = in.Meet(ctx, rw, g.Process, bootTime)
	}
	if err != nil {
		return err
	}
	version, err := g.Verify(ctx)
	if err != nil {
		return err
	}
	maps.Copy(in.Properties.Facts, map[string]string{"machine": g.Kind, "kernel": safetext.Line(in.Boot.Kernel),
		"cpu": g.CPUModel(), driver.FactAccelerator: g.Accel, "qemu": version})
	serials := make([]string, len(p.spec.Volumes))
	for i := range serials {
		serials[i] = qemu.VolumeSerial(i)
	}
	c := guest.InitConfig(p.spec, "", "", serials)
	c = wire.InitConfig{Schema: c.Schema, Volumes: c.Volumes, Network: c.Network, Sysctl: c.Sysctl}
	return fault.Wrap(fault.Subject, "set up the guest", in.Conn.Call(ctx, "setup", c, nil))
}

// withConsole adds the end of the console of a machine to the reason why it did not start.
func withConsole(err error, g *vm.Guest) error {
	if said := guest.Excerpt(consoleOf(g)); said != "" {
		return fault.New(fault.Of(err), "%w\nthe end of its console:\n%s", err, said)
	}
	return err
}

// withConsoleOf adds the console of a guest to a diagnosis.
func withConsoleOf(diagnosis []byte, g *vm.Guest) []byte {
	return append(diagnosis, append([]byte("its console:\n"), consoleOf(g)...)...)
}

// joinMachine opens the way into a machine, and makes the folder for files inside.
func (in *joined) joinMachine(ctx context.Context) (out joinedMachine, made bool, err error) {
	out.joined = in
	if out.agent, err = in.guest.Agent(ctx); err != nil {
		return out, false, err
	}
	in.Conn, in.info.OwnKernel = out.agent, true
	in.info.Agent, in.info.Scratch = guest.AgentPath, path.Join(guest.Scratch, in.spec.Label)
	in.info.Facts[driver.FactAccelerator] = in.guest.Accelerator
	if _, there, err := guest.Ask(ctx, in.Conn, "test", "-e", guest.AgentPath); err == nil && !there {
		in.info.Agent = "/init" // its root is in memory
	}
	_, there, err := guest.Ask(ctx, in.Conn, "test", "-e", in.info.Scratch)
	switch {
	case there:
		err = in.scratchExists()
	case err == nil:
		_, err = guest.Output(ctx, in.Conn, "mkdir", "-p", in.info.Scratch)
	}
	if err != nil {
		return out, false, errors.Join(fault.Op("make "+in.info.Scratch+" in the guest", err), out.agent.Close())
	}
	return out, true, nil
}

// Clock reads the guest's monotonic clock.
func (in joinedMachine) Clock(ctx context.Context) (time.Duration, error) {
	c, err := in.agent.Clock(ctx)
	return time.Duration(c.MonotonicNS), err
}

// Close lets others use the agent, too.
func (in joinedMachine) Close(ctx context.Context) error {
	in.end()
	return errors.Join(in.agent.Close(), in.joined.Close(ctx))
}

// reapMachine removes what an environment left in a machine. One that is stopped empties its
// folder for such files when it starts again.
func reapMachine(ctx context.Context, g *vm.Guest, left driver.Leftover, dryRun bool) (found []string, err error) {
	if g.State != vm.Running {
		return nil, nil
	}
	inside, err := g.Agent(ctx)
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	at := path.Join(guest.Scratch, left.Label)
	found, err = machine.Driver{}.Reap(ctx, inside, driver.Leftover{Label: left.Label, Dir: at}, dryRun)
	if _, there, aerr := guest.Ask(ctx, inside, "test", "-e", at); there {
		found = append(found, "folder "+at)
	} else {
		err = errors.Join(err, aerr)
	}
	if err == nil && !dryRun {
		_, err = guest.Output(ctx, inside, "rm", "-rf", "--", at)
	}
	return lists.Map(found, func(s string) string { return s + " in guest " + g.UUID }), err
}
