// Package zone is the driver for SmartOS: native and Linux zones, and bhyve and
// KVM machines, all created by vmadm from one JSON manifest.
//
// In a zone bakeoff-agent runs through zlogin and answers on its standard
// streams. The image of a machine must run `bakeoff-agent serve` on the second
// serial port, which SmartOS provides as a socket below the zone's root.
package zone

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Driver creates zones.
type Driver struct{}

var specs = []param.Spec{
	{Name: "brand", Kind: param.Text, Default: "joyent", Enum: []string{"joyent", "lx", "bhyve", "kvm"},
		Doc: "What vmadm creates. joyent: a native zone. lx: a zone for Linux programs. bhyve, kvm: a virtual " +
			"machine."},
	{Name: "image-uuid", Kind: param.Text,
		Doc: "UUID of the image, as shown by `imgadm list`. A machine must run `bakeoff-agent serve` on the second " +
			"serial port; its image must start this command."},
	{Name: "kernel-version", Kind: param.Text, Default: "5.10.0",
		Doc: "The Linux version that a zone with brand lx reports to its programs."},
	{Name: "nic-tag", Kind: param.Text, Default: "stub0",
		Doc: "The nic tag of the experiment's network: the name of an etherstub (virtual switch) that is connected " +
			"to nothing else."},
	{Name: "disk-quota", Kind: param.Int, Default: "10", Min: 1, Max: 10000,
		Doc: "Quota of the zone's file system, in GiB."},
	{Name: "boot-timeout", Kind: param.Duration, Default: "2m0s", Doc: "Maximum time until the agent in the zone or " +
		"machine answers."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:     "zone",
		Also:     map[string]string{"zones": "zone", "lx": "zone, brand: lx", "vmadm": "zone", "smartos": "zone"},
		Summary:  "a SmartOS zone (native or for Linux programs) or a bhyve or KVM machine, created by vmadm",
		Status:   driver.Unproven,
		Hosts:    []string{"illumos"},
		Root:     true,
		Options:  specs,
		Backings: []string{volume.Dir},
		Enforces: map[string]string{
			"cpus": "cpu_cap for zones, whose programs still see every CPU of the host; the number of virtual " +
				"processors for machines",
			"memory": "max_physical_memory and the same amount of swap for zones; the memory size for machines",
		},
		OwnRoot: []string{"*"},
		Tuning:  driver.Tuning{Why: "a zone shares the host's kernel, and the settings of a machine come from its image"},
		Source:  []string{"vmadm(8)", "imgadm(8)", "zlogin(1)", "https://docs.smartos.org/managing-images/"},
	}
}

// options are the options of one zone.
type options struct {
	brand, image, kernel, nicTag string
	quotaGiB                     int64
	bootTimeout                  time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Text("brand"), set.Text("image-uuid"), set.Text("kernel-version"), set.Text("nic-tag"),
		set.Int("disk-quota"), set.Duration("boot-timeout")}, err
}

// machine tells whether the zone holds a virtual machine.
func (o options) machine() bool { return o.brand == "bhyve" || o.brand == "kvm" }

// Check tells whether host runs SmartOS and has the image.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	a := guest.System(ctx, host, "SunOS")
	if !a.OK {
		return a
	}
	o, err := decode(values)
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	image := o.image
	if !name.ValidUUID(image) {
		return driver.Availability{Reason: "no image is named",
			Fix: "run imgadm avail and imgadm import UUID, and name the image in the option image-uuid"}
	}
	_, yes, err := guest.Ask(ctx, host, "imgadm", "get", image)
	if fault.Is(err, fault.NotFound) {
		return driver.Availability{Reason: "imgadm is not installed: the host does not run SmartOS",
			Fix: "use a SmartOS host"}
	}
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	if !yes {
		return driver.Availability{Reason: "the host does not have the image " + image, Fix: "imgadm import " + image}
	}
	version, err := guest.Output(ctx, host, "uname", "-v")
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	a.Facts["platform"] = safetext.Line(version)
	return a
}

// idOf is the zone's UUID. It is derived from the label, so that the zone can
// be found again (RFC 9562, version 8).
func idOf(label string) string {
	h := sha256.Sum256([]byte("bakeoff zone " + label))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// Create creates a zone and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	e := guest.New(d, host, spec)
	o, err := validate(spec)
	if err != nil {
		return nil, e.Refuse(err)
	}
	id := idOf(spec.Label)
	state, err := lookup(ctx, host, id)
	if err == nil && state != nil && state.State == "running" {
		err = guest.Taken("a zone " + id)
	}
	if err == nil && state != nil {
		err = e.Remove(ctx) // it was left behind
	}
	if err != nil {
		return nil, e.Refuse(err)
	}
	if err := build(ctx, e, o, id); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	if o.machine() {
		return guest.Machine{Env: e}, nil
	}
	return e, nil
}

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	_, err := validate(spec)
	return err
}

func validate(spec driver.Spec) (options, error) {
	o, err := decode(spec.Options)
	if err == nil {
		err = guest.Check((Driver{}).Doc(), spec, 64*unit.MiB)
	}
	switch {
	case err != nil:
		return o, err
	case !name.ValidUUID(o.image):
		err = fault.New(fault.Invalid, "image-uuid must be the UUID of an image, as `imgadm list` shows it (got %q)", o.image)
	case o.machine() && len(spec.Volumes) > 0:
		err = fault.New(fault.Unsupported, "volume %s: machines in zones have no volumes", spec.Volumes[0].Path)
	}
	return o, err
}

// manifest is the input of vmadm.
func manifest(spec driver.Spec, o options, id string) map[string]any {
	mib := int64(spec.Memory / unit.MiB)
	m := map[string]any{"uuid": id, "brand": o.brand, "alias": spec.Label, "hostname": spec.Label, "autoboot": false,
		"nics": []any{}}
	if n := spec.Network; n != nil {
		nic := map[string]any{"nic_tag": o.nicTag, "ips": []string{n.Addr.String()}, "mac": n.MAC, "primary": true}
		if o.machine() {
			nic["model"] = "virtio" // a property of machines only
		}
		m["nics"] = []any{nic}
	}
	if o.machine() {
		m["ram"], m["vcpus"] = mib, spec.CPUs
		m["disks"] = []any{map[string]any{"image_uuid": o.image, "boot": true, "model": "virtio"}}
		return m
	}
	m["image_uuid"], m["cpu_cap"], m["quota"] = o.image, 100*spec.CPUs, o.quotaGiB
	// The minimum of vmadm is 256 MiB.
	m["max_physical_memory"], m["max_swap"] = mib, max(mib, 256)
	if o.brand == "lx" {
		m["kernel_version"] = o.kernel
	}
	var fs []any
	for i, v := range spec.Volumes {
		fs = append(fs, map[string]any{"type": "lofs", "source": volumeDir(spec, i), "target": v.Path})
	}
	if fs != nil {
		m["filesystems"] = fs
	}
	return m
}

func volumeDir(spec driver.Spec, i int) string {
	return path.Join(spec.Dir, fmt.Sprintf("volume%d", i))
}

func build(ctx context.Context, e *guest.Env, o options, id string) error {
	for i := range e.Spec.Volumes {
		if err := guest.Run(ctx, e.Host, "mkdir", "-p", volumeDir(e.Spec, i)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(manifest(e.Spec, o, id))
	if err != nil {
		return err
	}
	// Errors in the manifest are reported before anything is created.
	for _, argv := range [][]string{{"vmadm", "validate", "create", "-f", "-"}, {"vmadm", "create", "-f", "-"}} {
		if _, err := conn.OutputOf(ctx, e.Host, conn.Cmd{Argv: argv, Stdin: bytes.NewReader(text)}); err != nil {
			return err
		}
	}
	z, err := lookup(ctx, e.Host, id)
	if err != nil {
		return err
	}
	if z == nil || !path.IsAbs(z.Path) {
		return fault.New(fault.Lab, "vmadm created a zone but does not report its path: %+v", z)
	}
	root := path.Join(z.Path, "root")
	if !o.machine() {
		at, err := guest.Inside(ctx, e.Host, root, path.Dir(guest.AgentPath))
		if err != nil {
			return err
		}
		if err := guest.Run(ctx, e.Host, "cp", e.Spec.Agent, path.Join(at, path.Base(guest.AgentPath))); err != nil {
			return err
		}
	}
	if err := guest.Run(ctx, e.Host, "vmadm", "start", id); err != nil {
		return err
	}
	if err := meet(ctx, e, o, id, root); err != nil {
		return err
	}
	return describe(ctx, e, o)
}

// meet waits until the zone runs and its agent answers.
func meet(ctx context.Context, e *guest.Env, o options, id, root string) error {
	timeout := o.bootTimeout
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		z, err := lookup(wait, e.Host, id)
		if err != nil {
			return err
		}
		if z != nil && z.State == "running" {
			break
		}
		if sleep.For(wait, 100*time.Millisecond) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fault.New(fault.Subject, "the zone did not start within %v: %+v", timeout, z)
		}
	}
	if o.machine() {
		e.Lacks("vmadm does not say when it starts the processor or the kernel", bootmodel.MarkVCPU, bootmodel.MarkFirmware,
			bootmodel.MarkKernel)
	} else {
		e.Lacks("a zone starts processes of its own before the agent", bootmodel.MarkUserland)
	}
	argv := []string{"zlogin", "-QS", id, guest.AgentPath, "serve", "-"}
	if o.machine() {
		argv = []string{e.Spec.Agent, "dial", "unix", path.Join(root, "tmp/vm.ttyb")}
	}
	rw, p := e.Session(ctx, argv...)
	return e.Meet(ctx, rw, p, timeout)
}

func describe(ctx context.Context, e *guest.Env, o options) error {
	p := &e.Properties
	memory := e.Spec.Memory
	p.Limits.Memory, p.Limits.NotEnforced = &memory, map[string]string{}
	p.Facts["brand"], p.Facts["image"] = o.brand, o.image
	if o.machine() {
		n := e.Spec.CPUs
		p.Limits.CPUs, p.OwnKernel = &n, true
	} else {
		p.Limits.NotEnforced["cpus"] = fmt.Sprintf("cpu_cap limits it to %d %% of a CPU, on any CPU", 100*e.Spec.CPUs)
	}
	p.Facts["network"] = "none"
	if e.Spec.Network != nil {
		p.Facts["network"] = "vnic on " + o.nicTag
	}
	return e.Prepare(ctx, []string{"mkdir", "-p", guest.Scratch})
}

// state is the part of a zone's manifest that bakeoff reads.
type state struct {
	State string `json:"state"`
	Path  string `json:"zonepath"`
	Alias string `json:"alias"`
}

// lookup gets a zone from vmadm; nil if there is none. Only the list tells
// that, because an error may have any reason.
func lookup(ctx context.Context, host conn.Conn, id string) (*state, error) {
	list, err := guest.Output(ctx, host, "vmadm", "lookup")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(strings.Fields(list), id) {
		return nil, nil
	}
	text, err := guest.Output(ctx, host, "vmadm", "get", id)
	if err != nil {
		return nil, err
	}
	return parse([]byte(text))
}

// parse parses the output of `vmadm get`.
func parse(text []byte) (*state, error) {
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fault.Wrap(fault.Lab, "vmadm get", err)
	}
	if s.State == "" || len(s.State) > 64 {
		return nil, fault.New(fault.Lab, "vmadm get: the zone has no state")
	}
	return &s, nil
}

// Reap removes what a zone has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	id := idOf(left.Label)
	z, err := lookup(ctx, host, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // without vmadm nothing was made
	}
	if err != nil || z == nil {
		return nil, err
	}
	found := []string{fmt.Sprintf("zone %s (%s)", id, safetext.Line(z.Alias))}
	if dryRun {
		return found, nil
	}
	return found, guest.Run(ctx, host, "vmadm", "delete", id)
}
