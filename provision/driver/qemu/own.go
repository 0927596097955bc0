package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/image/partition"
	"bakeoff/reach/conn"
)

// The values of the options acpi and channel.
const (
	acpiAuto = "auto"
	acpiOn   = "on"
	acpiOff  = "off"

	channelAuto   = "auto"
	channelVirtio = "virtio"
	channelDial   = "dial"
)

// DialAddress is where the agent of a guest dials with the channel dial. QEMU's network
// for it has no other destination; the guest's address is 10.0.2.15, also by DHCP.
const DialAddress = "10.0.2.100:7311"

var (
	acpiOption = param.Spec{Name: optACPI, Kind: param.Text, Default: acpiAuto, Enum: []string{acpiAuto, acpiOn, acpiOff},
		Doc: "Whether the guest sees ACPI. auto is off for a NetBSD kernel on microvm, whose virtio devices QEMU names on " +
			"the kernel's command line without it, and on otherwise."}
	channelOption = param.Spec{Name: optChannel, Kind: param.Text, Default: channelAuto,
		Enum: []string{channelAuto, channelVirtio, channelDial},
		Doc: "How the agent of a guest with the option disk or initrd is reached. virtio is a port of a virtio console " +
			"with the name " + portName + ", which the agent serves. With dial the agent connects to " + DialAddress +
			" over a network card that leads nowhere else. " +
			"auto is dial for NetBSD and OpenBSD, which have no such ports, and for FreeBSD, whose ports lose input; it is " +
			"virtio otherwise. " +
			"The fact channel says which."}
)

// own tells that the user brings the system of the guest: bakeoff starts the machine,
// and something in its system starts the agent.
func (o options) own() bool { return o.disk != "" || o.initrd != "" }

// files are the options that name files or folders of the host.
func (o options) files() map[string]string {
	return map[string]string{optKernel: o.kernel, optModules: o.modules, optInitrd: o.initrd, optDisk: o.disk,
		optRAMDisk: o.ramDisk}
}

// validateOwn refuses what a guest that the user brings cannot give.
func (o options) validateOwn(spec driver.Spec) error {
	name := optDisk
	if o.disk == "" {
		name = optInitrd
	}
	refuse := func(kind fault.Kind, fix, format string, args ...any) error {
		return fault.WithFix(fault.New(kind, "%s", name+": "+fmt.Sprintf(format, args...)), fix)
	}
	switch {
	case spec.Image.Disk != "":
		return refuse(fault.Invalid, "remove image", "the guest has a system of its own and takes no image")
	case o.initrd != "" && o.kernel == "":
		return refuse(fault.Invalid, "name it with "+optKernel, "an initial RAM disk needs a kernel")
	case o.append != "" && o.kernel == "":
		return refuse(fault.Invalid, "remove "+optAppend+", or name a kernel with "+optKernel,
			"%s has no effect where the boot loader of the disk starts the kernel", optAppend)
	case o.form == formELF && o.kernel == "":
		return refuse(fault.Invalid, "remove "+optForm+", or name a kernel with "+optKernel,
			"%s has no effect where the boot loader of the disk starts the kernel", optForm)
	case o.kernel == "" && o.machine != machineQ35:
		return refuse(fault.Unsupported, "machine: "+machineQ35+", or name a kernel with "+optKernel,
			"%s has no firmware that starts the boot loader of a disk", o.machine)
	case o.modules != "":
		return refuse(fault.Invalid, "remove "+optModules, "bakeoff makes no initial RAM disk for modules")
	}
	return o.unable(spec)
}

// guestFiles are what the files of the options say.
type guestFiles struct {
	kernel           kernelFile
	format           string // of the disk
	diskSum, ramdisk string // sha256
}

// resolve reads the files of the options on host and replaces the defaults that depend
// on them. It changes nothing there.
func resolve(ctx context.Context, host conn.Conn, memo *driver.Memo, o options) (options, guestFiles, error) {
	var f guestFiles
	var err error
	if o.kernel != "" {
		f.kernel, err = look(ctx, host, memo, o.kernel)
		if err == nil {
			err = errors.Join(f.kernel.bootable(o.kernel), f.kernel.withoutRoot(o))
		}
	}
	if err == nil && o.disk != "" {
		f.format, f.diskSum, err = lookAtDisk(ctx, host, memo, o.disk)
	}
	if err == nil && o.initrd != "" {
		f.ramdisk, err = remembered(ctx, host, memo, o.initrd)
	}
	if err != nil {
		return o, f, err
	}
	if err := o.named(f.kernel); err != nil {
		return o, f, err
	}
	netbsd := o.system == systemNetBSD
	if o.acpi == acpiAuto {
		o.acpi = acpiOn
		if netbsd && o.machine == machineMicroVM {
			o.acpi = acpiOff
		}
	}
	if o.firmware == firmwareAuto && netbsd && o.machine == machineMicroVM {
		o.firmware = seaBIOS // it needs the MP table, which qboot does not make
	}
	if o.channel == channelAuto {
		o.channel = channelOf(o.system)
	}
	return o, f, nil
}

// channelOf is the channel of a guest with a system; "" is one that nobody named. NetBSD
// and OpenBSD have no ports of a virtio console with names. A port of FreeBSD is a
// terminal that drops input when its queue is full: a file that bakeoff pushes would
// arrive with holes.
//
// Source: vtcon_port_in in sys/dev/virtio/console/virtio_console.c of FreeBSD, which
// ignores that ttydisc_rint took nothing.
func channelOf(system string) string {
	switch system {
	case systemFreeBSD, systemNetBSD, systemOpenBSD:
		return channelDial
	}
	return channelVirtio
}

// withoutRoot refuses a kernel of another system with the root of an image: only Linux
// starts the agent from bakeoff's RAM disk.
func (k kernelFile) withoutRoot(o options) error {
	if o.own() || k.System == systemLinux || k.System == "" {
		return nil
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s: %s is a kernel of another system (%s), and cannot start from an "+
		"image", optKernel, o.kernel, k.Version), "replace image with the disk of that system: "+optDisk+": FILE")
}

// lookAtDisk returns the format and the digest of a disk. It refuses a qcow2 file that
// needs other files of the host.
func lookAtDisk(ctx context.Context, host conn.Conn, memo *driver.Memo, file string) (format, sum string, err error) {
	key, err := fileKey(ctx, host, file)
	if err != nil {
		return "", "", fault.Op(optDisk, err)
	}
	if format, err = driver.Remember(memo, "qemu: format "+key, func() (string, error) {
		head, err := part(ctx, host, file, 0, 512)
		if err != nil {
			return "", err
		}
		packed, err := partition.QCOW2(head)
		if err != nil {
			return "", fault.WithFix(fault.New(fault.Of(err), "%s: %s: %s", optDisk, file, reason(err)), fault.Fix(err))
		}
		return map[bool]string{false: formatRaw, true: formatQcow2}[packed], nil
	}); err != nil {
		return "", "", err
	}
	sum, err = remembered(ctx, host, memo, file)
	return format, sum, err
}

// remembered is the digest of a file, which is read once as long as it does not change.
// Without memo it is not read at all: only an environment that exists is described.
func remembered(ctx context.Context, host conn.Conn, memo *driver.Memo, file string) (string, error) {
	if memo == nil {
		return "", nil
	}
	key, err := fileKey(ctx, host, file)
	if err != nil {
		return "", err
	}
	return driver.Remember(memo, "qemu: sha256 "+key, func() (string, error) { return sha256Of(ctx, host, file) })
}

// reason is the text of an error without its remedy.
func reason(err error) string { return strings.TrimSuffix(err.Error(), "; "+fault.Fix(err)) }

// disk is the one that a guest of the user has its system on; nil if that is a RAM disk.
func (f guestFiles) disk(o options) []disk {
	if o.disk == "" {
		return nil
	}
	return []disk{{serial: rootSerial, path: o.disk, snapshot: true, boots: o.kernel == "", controller: o.controller,
		format: f.format, cache: cacheWriteback, aio: aioThreads}}
}

// facts says what was booted, and over which channel the agent answers.
func (f guestFiles) facts(o options) map[string]string {
	facts := map[string]string{"channel": o.channel}
	if o.agent == agentNone {
		facts["channel"], facts["ready"] = "none", o.ready
		if !strings.HasPrefix(o.ready, viaConsole) {
			facts["ready.resolution"] = knockStep.String()
		}
	}
	for name, value := range f.kernel.facts() {
		facts[name] = value
	}
	if !o.own() {
		return facts
	}
	facts["acpi"], facts["boot"], facts["system"] = o.acpi, "kernel", cmp.Or(o.system, "unknown")
	if o.kernel == "" {
		facts["boot"] = "the boot loader of the disk"
	}
	facts["root"] = "the initial RAM disk of the lab file"
	if o.disk != "" {
		facts["root"] = o.controller + ", the disk of the lab file, changes in a temporary file"
		facts["disk.format"], facts["disk.sha256"] = f.format, cmp.Or(f.diskSum, "unavailable")
	}
	if o.initrd != "" {
		facts["initrd.sha256"] = cmp.Or(f.ramdisk, "unavailable")
	}
	return facts
}

// channelArgs is the part of the command line with the way to the agent.
func channelArgs(m machine) []string {
	socket := escape(path.Join(m.dir, socketChannel))
	argv := []string{"-chardev", "socket,id=channel,path=" + socket + ",server=on,wait=off"}
	if m.channel == channelDial {
		return append(argv, "-netdev", "user,id=channel,restrict=on,guestfwd=tcp:"+DialAddress+"-chardev:channel",
			"-device", card(m, "channel"))
	}
	return append(argv, "-device", "virtio-serial-"+bus(m.kind),
		"-device", "virtserialport,chardev=channel,nr=1,name="+portName)
}

// channelMAC is the address of the network card of the channel dial: locally
// administered, and never one of the experiment's network.
const channelMAC = "02:b1:00:00:00:01"
