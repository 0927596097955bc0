package gpt

import "strings"

// typeNames name the types of partitions that people meet on disks of virtual machines.
//
// Source: UEFI Specification 2.10, 5.3.3; the Discoverable Partitions Specification; gpt(8) of
// NetBSD, sys/sys/disk/gpt.h of FreeBSD, fdisk(8) of OpenBSD.
var typeNames = map[string]string{
	"C12A7328-F81F-11D2-BA4B-00A0C93EC93B": "EFI system",
	"21686148-6449-6E6F-744E-656564454649": "BIOS boot",
	"0FC63DAF-8483-4772-8E79-3D69D8477DE4": "Linux data",
	"4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709": "Linux root (amd64)",
	"B921B045-1DF0-41C3-AF44-4C6F280D3FAE": "Linux root (arm64)",
	"72EC70A6-CF74-40E6-BD49-4BDA08E8F224": "Linux root (riscv64)",
	"0657FD6D-A4AB-43C4-84E5-0933C84B4F4F": "Linux swap",
	"49F48D5A-B10E-11DC-B99B-0019D1879648": "NetBSD FFS",
	"49F48D32-B10E-11DC-B99B-0019D1879648": "NetBSD swap",
	"49F48D82-B10E-11DC-B99B-0019D1879648": "NetBSD LFS",
	"49F48DAA-B10E-11DC-B99B-0019D1879648": "NetBSD RAIDframe",
	"2DB519C4-B10F-11DC-B99B-0019D1879648": "NetBSD concatenated disk",
	"2DB519EC-B10F-11DC-B99B-0019D1879648": "NetBSD encrypted disk",
	"83BD6B9D-7F41-11DC-BE0B-001560B84F0F": "FreeBSD boot",
	"516E7CB4-6ECF-11D6-8FF8-00022D09712B": "FreeBSD data",
	"516E7CB5-6ECF-11D6-8FF8-00022D09712B": "FreeBSD swap",
	"516E7CB6-6ECF-11D6-8FF8-00022D09712B": "FreeBSD UFS",
	"516E7CBA-6ECF-11D6-8FF8-00022D09712B": "FreeBSD ZFS",
	"824CC7A0-36A8-11E3-890A-952519AD3F61": "OpenBSD",
	"6A898CC3-1DD2-11B2-99A6-080020736631": "illumos ZFS",
	"E3C9E316-0B5C-4DB8-817D-F92DF00215AE": "Windows reserved",
	"EBD0A0A2-B9E5-4433-87C0-68B6B72699C7": "Windows data",
	"DE94BBA4-06D1-4D40-A16A-BFD50179D6AC": "Windows recovery",
}

// TypeName names the type of a partition; "" if it is not known.
func TypeName(guid string) string { return typeNames[strings.ToUpper(guid)] }
