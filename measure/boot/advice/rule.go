package advice

import (
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
)

// The functions of kernels that rules know, and the programs.
var (
	// Linux: these initcalls test what they register.
	selfTests = []string{"crypto_algapi_init", "crypto_kdf108_init", "init_trace_selftests",
		"kprobe_self_test", "raid6_select_algo", "calibrate_xor_blocks"}
	calibrations = []string{"calibrate_delay", "calibrate_APIC_clock", "tsc_calibrate", "cpu_get_tsc_freq",
		"lapic_calibrate", "lapic_calibrate_timer", "tsc_init", "probe_tsc_freq", "start_TSC", "native_calibrate_tsc",
		"native_calibrate_cpu", "pit_calibrate_tsc", "quick_pit_calibrate"}
	delays = []string{"DELAY", "delay", "delay_func", "msleep", "mdelay", "ssleep", "usleep_range", "usleep_range_state",
		"__const_udelay", "__udelay", "__delay", "pause_sbt", "kpause", "tsleep", "x86_delay", "i8254_delay"}
)

var rules = []rule{
	{
		name: "console", is: func(_ bootmodel.Recording, s bootmodel.Span) bool { return s.Name == "printk" },
		text: "The kernel wrote messages to its console, and waited for it",
		adapt: func(set commandLine) string {
			for _, word := range []string{"ignore_loglevel", "loglevel", "debug"} {
				if set.hasArgument("quiet") && set.hasParameter(word) {
					return "The kernel's command line has quiet, but " + word + " cancels it: remove " + word + "."
				}
			}
			if set.hasArgument("quiet") {
				return "Use a faster console, or none: the kernel's command line has quiet already."
			}
			return "Write less to the console, or use a faster one: at 115200 baud, a console writes 11.5 characters per " +
				"millisecond. The lines of initcall_debug are among those messages."
		},
		argument: func([]bootmodel.Span) string { return "quiet" },
	},
	{
		name: "calibration", is: isCalibration,
		text: "The system measured how fast its clock is",
		adapt: func(set commandLine) string {
			how := []string{"the hypervisor's clock (kvm-clock)"}
			for _, name := range []string{"tsc_early_khz", "lpj"} {
				if !set.hasParameter(name) {
					how = append(how, name+"=")
				}
			}
			return "Give it the " +
				"frequency: " + strings.Join(how, ", ") + " on Linux; or use a kernel that asks the hypervisor for the frequency " +
				"(NetBSD 11)."
		},
	},
	{
		name: "delay", is: isDelay,
		text: "The boot waited for a fixed time",
		knob: "Find out what the delay is for. Emulated hardware does not need the delays of real hardware.",
	},
	{
		name: "self-test", is: isLinux(selfTests),
		text:     "The kernel tested its algorithms",
		knob:     "Turn the tests off.",
		argument: func([]bootmodel.Span) string { return "cryptomgr.notests" },
	},
	{
		name: "initramfs", is: func(_ bootmodel.Recording, s bootmodel.Span) bool { return s.Name == "unpack initramfs" },
		text: "The kernel unpacked its initramfs while it did other work",
		knob: "Leave out of the initramfs what the boot does not use, and compress it with a faster method (lz4, zstd), " +
			"or not " +
			"at all.",
	},
	{
		name: "decompression", is: isDecompression,
		text: "The kernel was decompressed",
		knob: "Boot the kernel as an ELF file (PVH), which is not compressed.",
	},
	{
		name: "absent-hardware", is: isAbsent,
		text:     "Drivers looked for hardware that is not there",
		knob:     "Leave the drivers out, or remove their hardware from the machine.",
		argument: blacklist,
	},
}

func isLinux(functions []string) func(bootmodel.Recording, bootmodel.Span) bool {
	return func(r bootmodel.Recording, s bootmodel.Span) bool {
		return r.System == "linux" && slices.Contains(functions, s.Name)
	}
}

// isCalibration knows functions, and the messages that Linux logs before its loop.
func isCalibration(_ bootmodel.Recording, s bootmodel.Span) bool {
	return slices.Contains(calibrations, s.Name) ||
		strings.HasPrefix(s.Name, "Calibrating delay loop") && !strings.Contains(s.Label(), "skipped")
}

// isDelay knows functions, and programs that only wait.
func isDelay(r bootmodel.Recording, s bootmodel.Span) bool {
	if slices.Contains(delays, s.Name) || strings.HasPrefix(s.Name, "Waiting ") && strings.HasSuffix(s.Label(), "...") {
		return true
	}
	return r.Tracks[s.Track].Kind == bootmodel.KindProcess && (s.Name == "sleep" || strings.HasSuffix(s.Name, "/sleep"))
}

func isDecompression(_ bootmodel.Recording, s bootmodel.Span) bool {
	return s.Name == "decompress_kernel" || s.Name == "extract_kernel" || s.Name == "decompress kernel"
}

// isAbsent knows initcalls and probes of Linux that ended with ENODEV or ENXIO.
func isAbsent(r bootmodel.Recording, s bootmodel.Span) bool {
	if r.System != "linux" {
		return false
	}
	for _, result := range []string{"returned -19", "returned -6", "returned 19", "returned 6"} {
		if s.Arg == result || strings.HasSuffix(s.Arg, " "+result) {
			return true
		}
	}
	return false
}

// blacklist is the argument that makes Linux skip initcalls. It does not know probes, nor
// initcalls of modules.
func blacklist(spans []bootmodel.Span) string {
	var names []string
	for _, s := range spans {
		if s.Name != "probe" && strings.HasPrefix(s.Arg, "returned ") && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "initcall_blacklist=" + strings.Join(names, ",")
}
