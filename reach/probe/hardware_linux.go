package probe

import "os"

// hardware reads what the kernel has from SMBIOS, which root alone may read in
// part, and the network cards that are devices and not links of the kernel's
// own making.
func hardware() Hardware {
	return Hardware{
		UUID:   text("/sys/class/dmi/id/product_uuid"),
		Serial: text("/sys/class/dmi/id/product_serial"),
		CPU:    parseCPUInfo(text("/proc/cpuinfo")).model,
		MACs: cards(func(name string) bool {
			_, err := os.Stat("/sys/class/net/" + name + "/device")
			return err == nil
		}),
	}
}

// Boot is a text that is another one after each boot, "" where the system
// does not tell.
func Boot() string { return clean(text("/proc/sys/kernel/random/boot_id")) }
