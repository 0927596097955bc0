// Package probe reads the facts of a machine through a connection. It starts programs that
// only read, and writes nothing.
//
// What a machine does not say stays unknown: a program that is missing, fails or prints
// something else leaves its facts empty, and never a guess.
package probe

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn"
)

// programTime bounds each program.
const programTime = time.Minute

// machine is a machine that is read.
type machine struct {
	ctx  context.Context
	conn conn.Conn
}

// run returns the output of a program, "" if it failed or is missing.
func (m machine) run(argv ...string) string {
	out, _ := m.output(argv...)
	return out
}

func (m machine) output(argv ...string) (string, bool) {
	ctx, stop := context.WithTimeout(m.ctx, programTime)
	defer stop()
	cmd := conn.Command(argv...)
	cmd.Env = []string{"LC_ALL=C"}
	out, err := conn.OutputOf(ctx, m.conn, cmd)
	return string(out), err == nil
}

// file returns a text file, "" if it cannot be read.
func (m machine) file(name string) string {
	ctx, stop := context.WithTimeout(m.ctx, programTime)
	defer stop()
	b, _ := conn.FilesOf(m.conn).ReadFile(ctx, name)
	return string(b)
}

// names returns the names in a folder, and whether it could be read.
func (m machine) names(dir string) ([]string, bool) {
	ctx, stop := context.WithTimeout(m.ctx, programTime)
	defer stop()
	all, err := conn.FilesOf(m.conn).ReadDir(ctx, dir)
	return all, err == nil
}

// Read reads the facts of the machine that c reaches. The error is ctx's.
func Read(ctx context.Context, c conn.Conn) (installed.System, error) {
	m := machine{ctx, c}
	s := installed.System{Schema: installed.Schema}
	if m.netbsd() {
		m.readNetBSD(&s)
		return s, ctx.Err()
	}
	s.OS = m.system()
	s.RAMBytes = memTotal(m.file("/proc/meminfo"))
	s.Firmware = m.firmware()
	s.Tools = m.tools()
	s.Pools, s.Datasets, s.Snapshots = m.pools()
	s.Mounts, s.Swaps = mounts(m.file("/proc/mounts")), swaps(m.file("/proc/swaps"))
	rootPool := ""
	for _, at := range s.Mounts {
		if at.Target == "/" && at.Type == "zfs" {
			rootPool = installed.PoolOf(at.Source)
		}
	}
	s.Disks, s.Blkid = m.disks(s.Pools, rootPool)
	if out, ok := m.output("efibootmgr", "-v"); ok {
		s.EFI = efi(out)
	}
	s.ESPFiles = m.espFiles(s)
	s.Kernels, s.Initramfs = m.kernels()
	s.Packages, s.Services = m.packages(), m.services()
	s.Modes = m.modes(s)
	s.Files = m.configuration(s.Modes)
	s.Hibernation = hibernates(s, m.file("/proc/cmdline"))
	s.Bootloader = m.bootloader(s)
	s.ZBM, s.UKI = m.menu(s), m.unified(s)
	return s, ctx.Err()
}

func (m machine) system() installed.OS {
	v := variables(m.file("/etc/os-release"))
	o := installed.OS{ID: v["ID"], Version: v["VERSION_ID"], Arch: strings.TrimSpace(m.run("uname", "-m"))}
	if o.Version == "" && o.ID == "void" {
		o.Version = "rolling"
	}
	o.Init = strings.TrimSpace(m.file("/proc/1/comm"))
	if strings.HasPrefix(m.run("getconf", "GNU_LIBC_VERSION"), "glibc") {
		o.Libc = "glibc"
	} else if names, _ := m.names("/lib"); slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, "ld-musl-")
	}) {
		o.Libc = "musl"
	}
	return o
}

func (m machine) firmware() installed.Firmware {
	var f installed.Firmware
	names, ok := m.names("/sys/firmware")
	switch {
	case slices.Contains(names, "efi"):
		f.Mode = "uefi"
	case ok && strings.TrimSpace(m.run("uname", "-s")) == "Linux":
		f.Mode = "bios"
	default:
		return f
	}
	vars, ok := m.names("/sys/firmware/efi/efivars")
	if have := len(vars) > 0; ok || f.Mode == "bios" {
		f.EFIVars = &have
	}
	if f.Mode == "bios" {
		off := false
		f.SecureBoot = &off
	}
	f.MOK = m.ownerKeys(vars)
	for _, v := range vars {
		if strings.HasPrefix(v, "dump-type0-") {
			f.Dumps++
		}
		if strings.HasPrefix(v, "SecureBoot-") {
			// 4 bytes of attributes, then the value.
			if b := m.file("/sys/firmware/efi/efivars/" + v); len(b) == 5 {
				on := b[4] == 1
				f.SecureBoot = &on
			}
		}
	}
	return f
}

// version finds the first number with a point in a text.
var version = lazy.Compile(`[0-9]+(\.[0-9]+)+`)

func (m machine) tools() map[string]string {
	tools := map[string]string{}
	for name, argv := range map[string][]string{
		"zfs": {"zfs", "version"}, "cryptsetup": {"cryptsetup", "--version"}, "util_linux": {"lsblk", "--version"},
		"systemd": {"systemctl", "--version"}, "grub": {"grub-install", "--version"},
		"sgdisk": {"sgdisk", "--version"}, "efibootmgr": {"efibootmgr", "--version"},
	} {
		if v := version.FindString(m.run(argv...)); v != "" {
			tools[name] = v
		} else if name == "systemd" {
			if f := strings.Fields(m.run(argv...)); len(f) > 1 {
				tools[name] = f[1]
			}
		}
	}
	if f := strings.Fields(m.run("dracut", "--version")); len(f) > 1 { // "dracut 059-4"
		tools["dracut"], _, _ = strings.Cut(f[1], "-")
	}
	return tools
}

// memTotal reads MemTotal of /proc/meminfo, in bytes.
func memTotal(text string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil && n > 0 && n < 1<<50 {
				return n << 10
			}
		}
	}
	return 0
}

// variables reads NAME=VALUE lines with optional quotes, as of os-release(5).
func variables(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			all[name] = strings.Trim(value, `"'`)
		}
	}
	return all
}

// unescape reads the octal escapes of /proc/mounts.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounts reads /proc/mounts, without the kernel's own file systems.
func mounts(text string) (all []installed.Mount) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || !strings.HasPrefix(f[0], "/") && f[2] != "zfs" {
			continue
		}
		all = append(all, installed.Mount{Source: unescape.Replace(f[0]), Target: unescape.Replace(f[1]),
			Type: f[2], Options: f[3]})
	}
	return all
}

// swaps reads /proc/swaps, which has a first line also where nothing is used; nil is unknown.
func swaps(text string) (all []installed.Swap) {
	if text != "" {
		all = []installed.Swap{}
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] == "Filename" {
			continue
		}
		if n, err := strconv.ParseInt(f[2], 10, 64); err == nil && n > 0 && n < 1<<50 {
			all = append(all, installed.Swap{Device: unescape.Replace(f[0]), Size: n << 10})
		}
	}
	return all
}

// hibernates reports whether the machine is set up to hibernate: a kernel that runs or will
// run is given resume=, or initramfs-tools opens an encrypted swap to resume from it.
func hibernates(s installed.System, cmdline string) bool {
	has := func(line string) bool {
		return slices.ContainsFunc(strings.Fields(line), func(w string) bool {
			return strings.HasPrefix(w, "resume=") && w != "resume="
		})
	}
	for _, d := range s.Datasets {
		if has(d["org.zfsbootmenu:commandline"].Value) {
			return true
		}
	}
	opened := map[string]bool{}
	for line := range strings.Lines(s.Files["etc/crypttab"].Text) {
		if f := strings.Fields(line); len(f) > 3 && slices.Contains(strings.Split(f[3], ","), "initramfs") {
			opened["/dev/mapper/"+f[0]] = true
		}
	}
	for name, f := range s.Files {
		// The installer of Debian writes RESUME for each swap, also where nobody hibernates.
		if strings.HasPrefix(name, "etc/initramfs-tools/") && opened[variables(f.Text)["RESUME"]] {
			return true
		}
	}
	grub := variables(s.Files["etc/default/grub"].Text)
	return has(cmdline) || has(s.Files["etc/kernel/cmdline"].Text) ||
		has(grub["GRUB_CMDLINE_LINUX"]+" "+grub["GRUB_CMDLINE_LINUX_DEFAULT"])
}

// bootloader names what starts the machine, where it is not ZFSBootMenu.
func (m machine) bootloader(s installed.System) string {
	if kind := s.EFI.Bootloader(); kind != "" {
		return kind
	}
	if names, _ := m.names("/boot/grub"); slices.Contains(names, "grub.cfg") {
		return "grub"
	}
	return ""
}

// packages reads the versions of installed packages.
func (m machine) packages() map[string]string {
	if out, ok := m.output("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version}\n"); ok {
		return packagesOf(out, func(f []string) (string, string, bool) {
			return f[1], f[len(f)-1], len(f) == 3 && f[0] == "ii"
		})
	}
	if out, ok := m.output("xbps-query", "-l"); ok { // "ii zfs-2.4.4_1 description"
		return packagesOf(out, func(f []string) (string, string, bool) {
			i := strings.LastIndexByte(f[1], '-')
			return f[1][:max(i, 0)], f[1][i+1:], i > 0 && f[0] == "ii"
		})
	}
	return nil
}

func packagesOf(out string, read func(fields []string) (name, version string, ok bool)) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 2 {
			if name, version, ok := read(f); ok {
				all[name] = version
			}
		}
	}
	return all
}

// services returns the services that are enabled; nil is unknown.
func (m machine) services() []string {
	all := []string{}
	out, ok := m.output("systemctl", "list-unit-files", "--state=enabled", "--no-legend", "--plain")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 {
			all = append(all, f[0])
		}
	}
	if ok {
		return all
	}
	all, _ = m.names("/etc/runit/runsvdir/default")
	return all
}

// modes reads the permissions of what protects keys.
func (m machine) modes(s installed.System) map[string]string {
	files := []string{"/boot", "/etc/hostid", "/etc/crypttab"}
	for _, d := range s.Datasets {
		if key, ok := strings.CutPrefix(d["keylocation"].Value, "file://"); ok && path.IsAbs(key) {
			files = append(files, path.Clean(key))
		}
	}
	for line := range strings.Lines(m.file("/etc/crypttab")) {
		if f := strings.Fields(line); len(f) > 2 && path.IsAbs(f[2]) && !strings.HasPrefix(f[2], "/dev/") {
			files = append(files, path.Clean(f[2]))
		}
	}
	slices.Sort(files)
	all := map[string]string{}
	for _, f := range slices.Compact(files) {
		if mode := strings.TrimSpace(m.run("stat", "-c", "%a", f)); mode != "" {
			all[f] = strings.Repeat("0", max(0, 4-len(mode))) + mode
		}
	}
	return all
}

// JSON returns facts as indented JSON in which what is unknown is null.
func JSON(s installed.System) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	nullUnknown(all, "ram_bytes")
	nullUnknown(all["os"], "id", "version", "arch", "init", "libc")
	nullUnknown(all["firmware"], "mode")
	nullUnknown(all["zbm"], "version", "openzfs")
	disks, _ := all["disks"].([]any)
	for _, d := range disks {
		nullUnknown(d, "by_id", "serial", "size", "logical", "physical")
		parts, _ := d.(map[string]any)["partitions"].([]any)
		for _, p := range parts {
			nullUnknown(p, "type", "partuuid", "start", "size")
		}
	}
	if b, err = json.MarshalIndent(all, "", "  "); err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// nullUnknown replaces the empty values of keys by null.
func nullUnknown(object any, keys ...string) {
	m, _ := object.(map[string]any)
	for _, k := range keys {
		if v, ok := m[k]; m != nil && (!ok || v == "" || v == 0.0) {
			m[k] = nil
		}
	}
}
