package manifest

import (
	"runtime"
	"slices"

	"bakeoff/base/yamltree"
)

// The drivers of guests: the technologies that run them.
const (
	QEMU        = "qemu"
	Firecracker = "firecracker"
	DriverBhyve = "bhyve"
	Crun        = "crun"
	Runc        = "runc"
	Nspawn      = "nspawn"
	LXC         = "lxc"
	Jail        = "jail"
)

// Drivers are the drivers that can run guests of the brand on this machine, the usual one first.
func (b Brand) Drivers() []string { return b.DriversOn(runtime.GOOS) }

// DriversOn are those on a system, as GOOS names it.
func (b Brand) DriversOn(system string) []string {
	switch {
	case b == MicroVM:
		return []string{QEMU, Firecracker}
	case b == Bhyve && system == "freebsd":
		return []string{DriverBhyve, QEMU}
	case b == Bhyve:
		return []string{QEMU, DriverBhyve}
	case b.Machine():
		return []string{QEMU}
	case system == "freebsd":
		return []string{Jail}
	}
	return []string{Crun, Runc, Nspawn, LXC}
}

// Loader is the brand of machines that start a boot loader, unless another one is named.
func Loader() Brand {
	if runtime.GOOS == "freebsd" {
		return Bhyve
	}
	return KVM
}

func (b Brand) kind() string {
	if b.Machine() {
		return "machines"
	}
	return "containers"
}

// DriverOf is the driver of a guest, also of one whose record names none.
func DriverOf(g Guest) string {
	if g.Driver == "" {
		return g.Brand.Drivers()[0]
	}
	return g.Driver
}

// elsewhere says why a driver of lab files runs no guests.
var elsewhere = map[string]string{
	"jail":   "jails are a technology of FreeBSD",
	"zone":   "zones are a technology of SmartOS, whose guests vmadm runs",
	"docker": "a guest has no engine: bakeoff runs its container without the Docker daemon",
	"podman": "a guest has no engine: bakeoff runs its container without Podman",
	"gvisor": "gVisor takes the addresses of a container's NICs away",
	"oci":    "the name of the runtime is the driver",
}

// CheckDriver says why a driver cannot run guests of the brand, and what to write instead; ""
// if it can.
func (b Brand) CheckDriver(name string) (reason, allowed string) {
	all := b.Drivers()
	if slices.Contains(all, name) {
		return "", ""
	}
	reason, allowed = elsewhere[name], "use "+yamltree.OneOf(all)
	if reason == "" && slices.Contains(b.DriversOn("linux"), name) {
		reason = "this driver works only on Linux"
	}
	if reason == "" {
		reason = "there is no such driver"
		for _, other := range Brands {
			switch {
			case !slices.Contains(other.Drivers(), name):
			case b.Machine() && other.Machine():
				return "it runs guests of brand " + string(other) + " only", allowed
			default:
				reason = "guests of brand " + string(b) + " are " + b.kind()
			}
		}
	}
	return reason, allowed
}
