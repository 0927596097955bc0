package installed

import (
	"slices"
	"strings"
)

// LoaderKind names the program that a path of the firmware starts, "" if the path does not say.
func LoaderKind(loader string) string {
	name := "/" + strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(loader, `\`, "/")), "/")
	for _, k := range [][2]string{{"zfsbootmenu", "zfsbootmenu"}, {"/zbm/", "zfsbootmenu"}, {"/zbm-", "zfsbootmenu"},
		{"refind", "refind"}, {"grub", "grub"}, {"shim", "grub"}, {"/efi/linux/", "uki"}, {"systemd-boot", "systemd-boot"}} {
		if strings.Contains(name, k[0]) {
			return k[1]
		}
	}
	return ""
}

// Bootloader names what the firmware started, or starts first if it does not say what it started; "" is unknown.
func (e *EFI) Bootloader() string {
	if e == nil {
		return ""
	}
	order := e.Order
	if e.Current != "" {
		order = []string{e.Current}
	}
	for _, number := range order {
		i := slices.IndexFunc(e.Entries, func(e EFIEntry) bool { return e.Number == number })
		if i >= 0 && (e.Current != "" || e.Entries[i].Active == nil || *e.Entries[i].Active) {
			if kind := LoaderKind(e.Entries[i].Loader); kind != "" {
				return kind
			}
		}
	}
	return ""
}
