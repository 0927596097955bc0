package probe

import "os"

import "bakeoff/base/facts"

// hardware reads SMBIOS data, which only root can read completely, and the
// network cards: interfaces with a device.
func hardware() facts.Hardware {
	return facts.Hardware{
		UUID:   readText("/sys/class/dmi/id/product_uuid"),
		Serial: readText("/sys/class/dmi/id/product_serial"),
		CPU:    parseCPUInfo(readText("/proc/cpuinfo")).model,
		MACs: cards(func(name string) bool {
			_, err := os.Stat("/sys/class/net/" + name + "/device")
			return err == nil
		}),
	}
}

// Boot returns a text that changes with each boot; "" if unknown.
func Boot() string { return printable(readText("/proc/sys/kernel/random/boot_id")) }
