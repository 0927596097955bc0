package probe

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"bakeoff/base/facts"
	"bakeoff/base/hostpath"
)

// Keys of the registry, below HKEY_LOCAL_MACHINE.
const (
	versionKey   = `SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	processorKey = `HARDWARE\DESCRIPTION\System\CentralProcessor\0`
	controlKey   = `SYSTEM\CurrentControlSet\Control`
	schemesKey   = controlKey + `\Power\User\PowerSchemes`
)

// registryText is a text in the registry; "" if it does not exist.
func registryText(key, name string) string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, key, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close()
	text, _, err := k.GetStringValue(name)
	if err != nil {
		return ""
	}
	return text
}

func (c *collector) uname() {
	v := windows.RtlGetVersion()
	c.set("kernel", fmt.Sprintf("Windows %d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber), "")
	c.set("kernel.build", registryText(versionKey, "BuildLabEx"), "the registry has no BuildLabEx")
	if version := wine(); version != "" {
		c.set("wine", version, "")
	}
}

// wine is the version of Wine, which runs this program instead of Windows; "" on Windows.
func wine() string {
	p := windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version")
	if p.Find() != nil {
		return ""
	}
	text, _, _ := p.Call()
	return "Wine " + windows.BytePtrToString(*(**byte)(unsafe.Pointer(&text)))
}

// limits records nothing: Windows limits jobs, and this process reads the limits of none.
func (c *collector) limits() {}

// system records facts from the registry and the Windows API.
func (c *collector) system(volumes []string) {
	name := strings.TrimSpace(registryText(versionKey, "ProductName") + " " + registryText(versionKey, "DisplayVersion"))
	c.set("os", name, "the registry has no ProductName")
	c.set("cpu.count", strconv.Itoa(runtime.NumCPU()), "")
	c.set("cpu.model", registryText(processorKey, "ProcessorNameString"), "the registry has no ProcessorNameString")
	c.set("cpu.flags", processorFlags(), "not read on this processor")
	c.set("cpu.microcode", microcode(), "the registry has no Update Revision")
	c.set("memory", memory(), "GlobalMemoryStatusEx failed")
	c.set("cmdline", registryText(controlKey, "SystemStartOptions"), "the registry has no SystemStartOptions")
	c.set("governor", registryText(schemesKey, "ActivePowerScheme"), "the registry has no ActivePowerScheme")
	c.set("libc", "", "programs of Windows bring their own")
	for _, name := range []string{"mitigation", "clocksource"} {
		c.set(name, "", "not read on Windows")
	}
	for _, v := range append([]string{"/"}, volumes...) {
		kind, err := fileSystem(v)
		reason := "the system does not report it"
		if err != nil {
			reason = err.Error()
		}
		c.set("fs."+v, kind, reason)
	}
}

// microcode is the revision of the processor's microcode; "" if unknown.
func microcode() string {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, processorKey, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer k.Close()
	b, _, err := k.GetBinaryValue("Update Revision")
	if err != nil || len(b) != 8 {
		return ""
	}
	return fmt.Sprintf("%#x", binary.LittleEndian.Uint64(b)>>32)
}

func memory() string {
	var m struct { // MEMORYSTATUSEX
		size, load       uint32
		total            uint64
		_, _, _, _, _, _ uint64
	}
	m.size = uint32(unsafe.Sizeof(m))
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&m))); ok == 0 || m.total > 1<<62 {
		return ""
	}
	return strconv.FormatUint(m.total, 10) + " B"
}

// fileSystem is the type of the volume that path is on, such as NTFS.
func fileSystem(path string) (string, error) {
	local, err := filepath.Abs(hostpath.Local(path))
	if err != nil {
		return "", err
	}
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(local) + `\`)
	if err != nil {
		return "", err
	}
	name := make([]uint16, windows.MAX_PATH+1)
	if err := windows.GetVolumeInformation(root, nil, 0, nil, nil, nil, &name[0], uint32(len(name))); err != nil {
		return "", err
	}
	return windows.UTF16ToString(name), nil
}

// hardware reads SMBIOS data and the network cards.
func hardware() facts.Hardware {
	h := facts.Hardware{CPU: registryText(processorKey, "ProcessorNameString")}
	h.MACs = cards(func(string) bool { return true })
	const provider, header = 'R'<<24 | 'S'<<16 | 'M'<<8 | 'B', 8
	b := make([]byte, 64<<10)
	n, _, _ := getFirmwareTable.Call(provider, 0, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if n > header && int(n) <= len(b) {
		h.UUID, h.Serial = smbiosSystem(b[header:n])
	}
	return h
}

// Boot returns a text that changes with each boot; "" if unknown.
func Boot() string {
	var t struct { // SYSTEM_TIMEOFDAY_INFORMATION
		boot, _, _ int64
		_, _       uint32
		bias, _    int64
	}
	if windows.NtQuerySystemInformation(windows.SystemTimeOfDayInformation, unsafe.Pointer(&t),
		uint32(unsafe.Sizeof(t)), nil) != nil {
		return ""
	}
	return strconv.FormatInt(t.boot-t.bias, 10)
}
