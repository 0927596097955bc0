package partition

// The types of partitions, as they are written in a GPT, and in an MBR.
const (
	linuxData   = "0fc63daf-8483-4772-8e79-3d69d8477de4"
	windowsData = "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7" // older programs give it to file systems of Linux
	linuxMBR    = 0x83
	protected   = 0xee // the entry in an MBR that stands for a GPT
	// othersMBR are FAT, swap and a partition with boot loaders.
	othersMBR = "\x01\x04\x06\x0b\x0c\x0e\xef\x82\xea"
)

// containers are the types of partitions whose file systems bakeoff does not find, as written in a GPT.
// Both types of illumos are those of ZFS on Linux, too.
//
// Source: UAPI Group, Discoverable Partitions Specification; fdisk(8) and sgdisk(8) of Linux.
var containers = map[string]string{
	"e6d6d379-f507-44c2-a23c-238f2a3df928": "LVM",
	"ca7d7ccb-63ed-4c53-861c-1742536059cc": "LUKS",
	"7ffec5c9-2d00-49b7-8941-3ea10a5586b7": "dm-crypt",
	"a19d880f-05fc-4d3b-a006-743f0f84911e": "RAID",
	"6a898cc3-1dd2-11b2-99a6-080020736631": "ZFS",
	"6a85cf4d-1dd2-11b2-99a6-080020736631": "ZFS",
	"3cb8e202-3b7e-47dd-8a3c-7ff2a13cfcec": "the root of ChromeOS",
}

// containersMBR are the types of such partitions in an MBR.
var containersMBR = map[byte]string{0x8e: "LVM", 0xe8: "LUKS", 0xfd: "RAID", 0xbf: "ZFS"}

// roots are the types of root partitions by GOARCH.
//
// Source: UAPI Group, Discoverable Partitions Specification.
var roots = map[string]string{
	"amd64":   "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",
	"arm64":   "b921b045-1df0-41c3-af44-4c6f280d3fae",
	"386":     "44479540-f297-41b2-9af7-d131d5f0458a",
	"arm":     "69dad710-2ce4-4e3c-b16c-21a1d49abed3",
	"riscv64": "72ec70a6-cf74-40e6-bd49-4bda08e8f224",
	"s390x":   "5eead9a9-fe09-4a1e-a1d7-520d00531306",
	"ppc64le": "c31c45e6-3f39-412e-80fb-4809c4980599",
}
