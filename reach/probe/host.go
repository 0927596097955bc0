package probe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/hexsum"
)

// parseOSRelease reads os-release(5) and returns the name for people, with the
// version if the name lacks it.
func parseOSRelease(text string) string {
	v := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(name, "#") {
			v[name] = strings.Trim(value, `"'`)
		}
	}
	if v["PRETTY_NAME"] != "" {
		return v["PRETTY_NAME"]
	}
	return strings.TrimSpace(v["NAME"] + " " + v["VERSION_ID"])
}

// cpuInfo describes the first CPU of /proc/cpuinfo.
type cpuInfo struct{ model, flags, microcode string }

// parseCPUInfo reads /proc/cpuinfo of x86, arm64 and riscv64. The flags are
// reported as their number and the start of the sha256 of their sorted list,
// which is enough to detect a difference.
func parseCPUInfo(text string) cpuInfo {
	v := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); ok && v[name] == "" {
			v[name] = strings.TrimSpace(value)
		}
	}
	info := cpuInfo{model: v["model name"], microcode: v["microcode"]}
	if info.model == "" && v["CPU part"] != "" {
		info.model = "implementer " + v["CPU implementer"] + " part " + v["CPU part"] + " revision " + v["CPU revision"]
	}
	info.model = cmp.Or(info.model, v["uarch"])
	for _, name := range []string{"flags", "Features", "isa"} {
		if f := strings.Fields(v[name]); len(f) > 0 {
			slices.Sort(f)
			info.flags = hexsum.Of(strings.Join(f, " "))[:12] + " (" + strconv.Itoa(len(f)) + " flags)"
		}
	}
	return info
}

// parseMemTotal reads the memory size from /proc/meminfo: "536870912 B"; "" if
// it is missing.
func parseMemTotal(text string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kB, _ := strings.CutSuffix(strings.TrimSpace(rest), " kB")
			if n, err := strconv.ParseUint(strings.TrimSpace(kB), 10, 53); err == nil {
				return strconv.FormatUint(n*1024, 10) + " B"
			}
		}
	}
	return ""
}

// parseMusl returns "musl 1.2.3" from the output of musl's loader.
func parseMusl(text string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Version "); ok {
			return "musl " + v
		}
	}
	return ""
}

// mount is a mounted file system; device is its number, such as 8:1.
type mount struct{ point, device, kind, options string }

// mounts is in the order of mounting: of two on one point, the later one is
// visible.
type mounts []mount

// parseMounts reads /proc/self/mountinfo. The source of a mount may be empty.
//
// Source: proc_pid_mountinfo(5).
func parseMounts(text string) mounts {
	var out mounts
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		out = append(out, mount{Unescape(l[4]), l[2], r[0], mountOptions(l[5], r[len(r)-1])})
	}
	return out
}

// mountOptions joins the options of a mount and of its file system, each once,
// without the paths of overlays, which name folders of the host and do not
// affect a measurement.
func mountOptions(lists ...string) string {
	var out []string
	for _, o := range strings.Split(strings.Join(lists, ","), ",") {
		name, _, _ := strings.Cut(o, "=")
		switch {
		case name == "lowerdir", name == "upperdir", name == "workdir", name == "lowerdir+":
		case slices.Contains(out, o):
		default:
			out = append(out, o)
		}
	}
	return strings.Join(out, ",")
}

// Unescape decodes the octal escapes of /proc/mounts and mountinfo: \040 is a
// blank.
func Unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountAt returns the mount that contains path (absolute and clean); the zero value
// if unknown.
func (m mounts) mountAt(path string) (best mount) {
	for _, x := range m {
		if isBelow(x.point, path) && len(x.point) >= len(best.point) {
			best = x
		}
	}
	return best
}

// describeAt returns type and options of the file system that contains path.
func (m mounts) describeAt(path string) string {
	at := m.mountAt(path)
	return strings.TrimSpace(at.kind + " " + at.options)
}

func isBelow(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// MountedDevice reads from mountinfo the number of the device that contains path
// (absolute and clean), such as 8:1, and the type of its file system; "" if it is
// not listed.
func MountedDevice(mountinfo, path string) (device, kind string) {
	at := parseMounts(mountinfo).mountAt(path)
	return at.device, at.kind
}

// MountedBelow lists the mount points on or below dir in mountinfo, the last mount
// first.
func MountedBelow(mountinfo, dir string) (points []string) {
	for _, m := range slices.Backward(parseMounts(mountinfo)) {
		if isBelow(dir, m.point) {
			points = append(points, m.point)
		}
	}
	return points
}
