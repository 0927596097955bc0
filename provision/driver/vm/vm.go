// Package vm is the driver for the guests of `bakeoff vm`: one that runs, which is measured
// as it is, or one that bakeoff creates from a manifest for each environment.
package vm

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/machine"
	"bakeoff/provision/driver/qemu"
	"bakeoff/provision/isolation"
	"bakeoff/provision/lease"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// Driver measures in guests. Use New.
type Driver struct {
	// Getenv reads the variables that name the state folder and the cache.
	Getenv func(string) string
	// Materials are those of the services that manifests name: see build.Options.
	Materials map[string]map[string][]byte

	folder   string // to which relative names of manifests belong; "" is unknown
	mu       sync.Mutex
	prepared map[string]prepared // by the path of the manifest
}

// New returns the driver.
func New() *Driver { return &Driver{Getenv: os.Getenv, prepared: map[string]prepared{}} }

// SetFolder says where the lab file is.
func (d *Driver) SetFolder(folder string) { d.folder = folder }

// RelativeFiles is the manifest.
func (*Driver) RelativeFiles(options param.Values) []string {
	if o, err := decode(options); err == nil && o.manifest != "" {
		return []string{o.manifest}
	}
	return nil
}

// The options.
const (
	optGuest    = "guest"
	optManifest = "manifest"
)

var specs = []param.Spec{
	{Name: optGuest, Kind: param.Text, Doc: "UUID, beginning of the UUID, or alias of a running guest of `bakeoff " +
		"vm`: a container, or a machine made from a service folder or a container image. bakeoff measures this " +
		"guest as it is, and never creates, stops or changes it. All blocks use this guest (design.instances: run), " +
		"and verdicts hold for this guest only. While bakeoff measures a machine, `bakeoff vm exec` in that machine " +
		"waits."},
	{Name: optManifest, Kind: param.Text, Doc: "Path, relative to the lab file, of a manifest (JSON or YAML) of one " +
		"guest, as `bakeoff vm create` reads it. For each environment, bakeoff creates a guest with the memory " +
		"(ram) and the limit of CPU time (cpu_cap) of the manifest. When bakeoff removes the environment, it also " +
		"deletes the guest. A machine (kvm, bhyve, microvm) starts from a service folder or a container image, and " +
		"has as many vcpus as the contender has cpus."},
}

// Doc describes the driver.
func (*Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "vm",
		Summary: "a guest of bakeoff vm: either a running guest as it is, or a guest that bakeoff creates from a " +
			"manifest",
		OwnRoot:  []string{"*"},
		OwnSize:  []string{"*"},
		Standing: []string{optGuest + "=*"},
		Options:  specs,
		Enforces: map[string]string{
			"cpus":   "control group cpuset; not enforced for a running guest",
			"memory": "control group memory or, for a machine, its memory size; both as in the manifest",
		},
		Packages: []string{isolation.Crun, "qemu-system-x86"},
		Source:   []string{"vmadm(8)", "OCI Runtime Specification 1.0.2", "crun(1)"},
	})
}

// options are the options of one environment. One of them is set.
type options struct{ guest, manifest string }

func decode(v param.Values) (o options, err error) {
	all, err := driver.Options(specs, v)
	if err != nil {
		return o, err
	}
	o = options{all.Text(optGuest), all.Text(optManifest)}
	if (o.guest == "") == (o.manifest == "") {
		return o, fault.WithFix(fault.New(fault.Invalid, "driver vm needs the option guest or the option "+
			"manifest, and not both"),
			"write guest: NAME for a guest that runs, or manifest: FILE for guests that bakeoff creates")
	}
	return o, nil
}

// Check tells whether there can be guests on host, and whether the guest of the options runs.
func (d *Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	o, err := decode(values)
	if err == nil {
		err = mustBeHere(host)
	}
	if err != nil {
		return driver.Unavailable(err)
	}
	m := manifest.Guest{Brand: manifest.Docker}
	facts := map[string]string{}
	if o.guest != "" {
		var g *vm.Guest
		if g, err = d.find(o.guest, ""); err == nil {
			m, facts[optGuest] = g.Guest, g.UUID
		}
	} else if s, rerr := d.read(o.manifest, driver.Spec{}); rerr == nil { // Validate says what is wrong
		m = s.guest
	}
	if err != nil {
		return driver.Unavailable(err)
	}
	var a driver.Availability
	switch {
	case !m.Brand.Machine():
		t := vm.TechnologyOf(m)
		a = t.Check(ctx, host, t.Options)
	case o.guest != "":
		a = driver.Availability{OK: true}
	default:
		a = qemu.Driver{}.Check(ctx, host, param.Values{"machine": vm.KindOf(m.Brand)})
	}
	if a.Facts == nil {
		a.Facts = map[string]string{}
	}
	maps.Copy(a.Facts, facts)
	return a
}

// mustBeHere refuses guests of other hosts.
func mustBeHere(host conn.Conn) error {
	if isolation.Here(host) {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "bakeoff reaches only the guests of the machine that it runs on"),
		"run bakeoff on that host, or reach the guest over SSH with driver: machine")
}

// Validate refuses contradictory options and a manifest that bakeoff could not create a guest
// of. Every mistake in the manifest is named with its place, its value and the reason.
func (d *Driver) Validate(spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err == nil {
		err = d.Doc().Tuning.Check(spec.Tuning)
	}
	if err != nil {
		return err
	}
	if o.guest != "" {
		return refuseChanges(spec)
	}
	for _, v := range spec.Volumes {
		if err := volume.Check(v); err != nil {
			return err
		}
	}
	_, err = d.read(o.manifest, spec)
	return err
}

// Reach is the way into the guest that the options name; nil if they name none.
func (d *Driver) Reach(_ context.Context, host conn.Conn, spec driver.Spec) (conn.Conn, error) {
	o, err := decode(spec.Options)
	if err != nil || o.guest == "" {
		return nil, err
	}
	if err := mustBeHere(host); err != nil {
		return nil, err
	}
	g, err := d.find(o.guest, spec.Agent)
	if err != nil {
		return nil, err
	}
	return g.Inside()
}

// Create returns the guest that runs, or creates one from the manifest and starts it.
func (d *Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	asked := spec
	asked.Memory = 0 // the usual memory of contenders, unless Validate has compared it
	err := d.Validate(asked)
	if err == nil {
		err = mustBeHere(host)
	}
	if err != nil {
		return nil, fault.Op("vm", err)
	}
	var in driver.Instance
	if o, _ := decode(spec.Options); o.guest != "" {
		in, err = d.join(ctx, host, spec, o.guest)
	} else {
		in, err = d.make(ctx, host, spec, o.manifest)
	}
	if err != nil {
		return nil, fault.Op("vm", err)
	}
	return in, nil
}

// Reap removes the guest that an environment left, or what it left in a guest that runs.
func (d *Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	g := madeIn(left.Dir)
	if g != nil && g.Brand.Machine() {
		return hypervisor.Reap(ctx, host, left, dryRun)
	}
	found, err := machine.Driver{}.Reap(ctx, host, left, dryRun) // also what runs in a guest that was joined
	scratch, serr := d.reapScratch(ctx, host, left, dryRun)
	made, merr := isolation.Reap(ctx, host, left, dryRun)
	if g != nil {
		more, gerr := vm.TechnologyOf(g.Guest).Reap(ctx, host, driver.Leftover{Label: left.Label, Dir: g.Folder()}, dryRun)
		made, merr = append(made, more...), errors.Join(merr, gerr)
	}
	for _, line := range made {
		found = appendNew(found, line)
	}
	return append(found, scratch...), errors.Join(err, serr, merr)
}

// madeIn is the guest that was made for an environment, in the folder of the environment; nil
// if there is none.
func madeIn(dir string) *vm.Guest {
	if dir == "" {
		return nil
	}
	all, err := (&vm.Store{State: dir}).List()
	if err != nil || len(all) == 0 {
		return nil
	}
	return all[0]
}

// appendNew appends a line that is not in all.
func appendNew(all []string, line string) []string {
	for _, have := range all {
		if have == line {
			return all
		}
	}
	return append(all, line)
}

// store is where the guests of this machine are.
func (d *Driver) store(agent string) *vm.Store {
	state, _ := lease.Dirs(d.Getenv, os.Getuid())
	return &vm.Store{State: state, Host: local.Conn{}, Agent: agent}
}

// find returns a guest that runs and in which bakeoff can start programs.
func (d *Driver) find(name, agent string) (*vm.Guest, error) {
	g, err := d.store(agent).Find(name)
	if err == nil {
		_, err = g.Inside()
	}
	if err != nil {
		return nil, fault.Op("guest "+name, err)
	}
	return g, nil
}
