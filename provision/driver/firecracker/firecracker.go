// Package firecracker creates microVMs with Firecracker.
//
// The guest boots a kernel directly. bakeoff-agent is its process 1 and answers
// on a port of the virtio socket. Its root is a copy of the image's file
// system, because Firecracker has no temporary disks.
package firecracker

import (
	"context"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	vmm "bakeoff/provision/guest/firecracker"
	"bakeoff/reach/conn"
)

// Driver creates microVMs.
type Driver struct{}

var specs = []param.Spec{
	{Name: "kernel", Kind: param.Text,
		Doc: "Path on the host of a kernel to boot instead of the image's: an ELF vmlinux, or a bzImage, which " +
			"bakeoff decompresses."},
	{Name: "modules", Kind: param.Text,
		Doc: "Directory on the host that contains lib/modules/VERSION, for the kernel of the option kernel. Not " +
			"needed if virtio, vsock and ext4 are built into the kernel."},
	{Name: "cache", Kind: param.Text, Default: "Unsafe", Enum: []string{"Unsafe", "Writeback"},
		Doc: "Whether a flush by the guest reaches the host's disk. Unsafe, Firecracker's default, ignores flushes."},
	{Name: "io-engine", Kind: param.Text, Default: "Sync", Enum: []string{"Sync", "Async"},
		Doc: "How Firecracker reads and writes its drives. Async uses io_uring."},
	{Name: "append", Kind: param.Text, Doc: "Words to add to the kernel's command line, such as mitigations=off."},
	{Name: "program", Kind: param.Text, Default: vmm.Program,
		Doc: "The Firecracker program, a name or a path on the host. Version 1.8 or later is required: the kernels " +
			"of distributions find their devices in ACPI tables, which older versions lack."},
	{Name: "boot-timeout", Kind: param.Duration, Default: "30s", Doc: "Maximum time until the guest's agent answers."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:        "firecracker",
		Summary:     "a Firecracker microVM with hardware virtualization, without the jailer",
		Status:      driver.Unproven,
		Hosts:       []string{"linux"},
		Root:        true,
		Image:       true,
		Kernel:      true,
		Options:     specs,
		CommandLine: func(param.Values) string { return vmm.KernelWords },
		Backings:    guest.Backings(),
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":   "the same number of virtual processors, and control group cpuset for the Firecracker process",
			"memory": "the memory size of the guest; Firecracker's own memory is additional, and bakeoff meters it",
		}),
		Tuning: driver.Tuning{Names: []string{"*"}},
		Source: []string{
			"https://github.com/firecracker-microvm/firecracker/blob/main/src/firecracker/swagger/firecracker.yaml",
			"https://github.com/firecracker-microvm/firecracker/blob/main/docs/vsock.md",
		},
	}
}

// options are the options of one microVM.
type options struct {
	kernel, modules, cache, engine, append, program string
	bootTimeout                                     time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{kernel: set.Text("kernel"), modules: set.Text("modules"), cache: set.Text("cache"),
		engine: set.Text("io-engine"),
		append: set.Text("append"), program: set.Text("program"), bootTimeout: set.Duration("boot-timeout")}, err
}

// Check tells whether Firecracker can run a guest on host.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	a := guest.System(ctx, host, "Linux")
	if !a.OK {
		return a
	}
	o, err := decode(values)
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	version, err := guest.Output(ctx, host, o.program, "--version")
	if fault.Is(err, fault.NotFound) {
		return driver.Availability{Reason: o.program + " is not installed",
			Fix: "download a release from github.com/firecracker-microvm/firecracker and put it into PATH"}
	}
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	first, _, _ := strings.Cut(version, "\n")
	a.Facts["firecracker"] = safetext.Line(strings.TrimPrefix(first, "Firecracker v"))
	kvm, err := guest.ProbeKVM(ctx, host, "")
	if err == nil && !kvm.Works {
		return driver.Availability{Reason: "KVM does not work here: " + kvm.Reason,
			Fix: "use a machine with hardware virtualization", Facts: a.Facts}
	}
	return a
}

// The names of files in a microVM's directory on the host.
const (
	fileRoot   = "root.ext4"
	fileKernel = "vmlinux"
	fileInitrd = "initramfs.cpio"
)

// Instance is a microVM whose agent answers.
type Instance struct{ *guest.Hosted }

// Create creates a microVM and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	o, err := validate(spec)
	if err != nil {
		return nil, fault.Op("firecracker: create "+spec.Label, err)
	}
	m, err := hypervisor.New(ctx, d, host, spec)
	if err != nil {
		return nil, err
	}
	in := &Instance{m}
	in.Pause = (&vmm.Machine{Dir: spec.Dir}).API(host).Pause
	if err := in.build(ctx, o); err != nil {
		return nil, in.Abandon(ctx, err)
	}
	return in, nil
}

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	_, err := validate(spec)
	return err
}

func validate(spec driver.Spec) (options, error) {
	o, err := decode(spec.Options)
	if err == nil {
		err = guest.Check((Driver{}).Doc(), spec, vmm.MinMemory)
	}
	if err != nil {
		return o, err
	}
	switch {
	case len(spec.CPUSet) == 0:
		err = fault.New(fault.Invalid, "the CPU set is empty")
	case spec.Image.Disk == "":
		err = fault.New(fault.Invalid, "a microVM boots from an image; name one, such as image: debian:bookworm")
	case spec.Image.Kernel == "" && o.kernel == "":
		err = fault.New(fault.Invalid, "the image has no kernel; name one with the option kernel")
	case strings.HasPrefix(o.program, "-"):
		err = fault.New(fault.Invalid, "program: %q is not a program", o.program)
	case strings.ContainsFunc(o.append, func(r rune) bool { return r < ' ' || r > '~' }):
		err = fault.New(fault.Invalid, "append: write printable ASCII characters only (got %q)", o.append)
	default:
		err = guest.CheckSocketDir(spec.Dir)
	}
	return o, err
}

const hypervisor = guest.Hypervisor("firecracker")

// Reap removes what a microVM has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return hypervisor.Reap(ctx, host, left, dryRun)
}
