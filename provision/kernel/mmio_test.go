package kernel

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestParseMMIODevice(t *testing.T) {
	for in, want := range map[string]string{
		"512@0xfeb00000:5":          "512@0xfeb00000:5",
		"0x200@0xfeb00200:6":        "512@0xfeb00200:6",
		"4096@4273995776:12:7":      "4K@0xfec00000:12:7",
		"1K@0x1e000000:0":           "1K@0x1e000000:0",
		"2m@0x0:1:0":                "2M@0x0:1:0",
		"1G@0x100000000:4294967295": "1G@0x100000000:4294967295",
		"1@0xffffffffffffffff:1":    "1@0xffffffffffffffff:1",
	} {
		d, err := ParseMMIODevice(in)
		if err != nil || d.String() != want || d.Parameter() != "virtio_mmio.device="+want {
			t.Errorf("%s: %s, %v, want %s", in, d, err, want)
		}
	}
	for in, says := range map[string]string{
		"":                          "has no @",
		"512":                       "has no @",
		"512@0xfeb00000":            "must follow the @",
		"512@0xfeb00000:5:6:7":      "must follow the @",
		"@0xfeb00000:5":             "the size must be",
		"0@0xfeb00000:5":            "the size must be",
		"-1@0xfeb00000:5":           "the size must be",
		"1T@0xfeb00000:5":           "the size must be",
		"K@0xfeb00000:5":            "the size must be",
		"17179869184G@0:5":          "the size must be",
		"512@feb00000:5":            "the base must be",
		"512@0xfeb00000 :5":         "the base must be",
		"512@0x1ffffffffffffffff:5": "the base must be",
		"512@010:5":                 "the base must be",
		"2@0xffffffffffffffff:5":    "beyond the last address",
		"512@0xfeb00000:":           "the interrupt must be",
		"512@0xfeb00000:4294967296": "the interrupt must be",
		"512@0xfeb00000:5:":         "the number of the device",
		"512@0xfeb00000:5:-1":       "the number of the device",
		"5_12@0xfeb00000:5":         "the size must be",
	} {
		if d, err := ParseMMIODevice(in); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v, want %q", in, d, err, says)
		}
	}
}

func TestMMIODevices(t *testing.T) {
	first, err := MicroVMDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	last, err := MicroVMDevice(7)
	if err != nil || last.String() != "512@0xfeb00e00:12" {
		t.Fatalf("%s, %v", last, err)
	}
	all, err := MMIODevices("console=ttyS0 " + first.Parameter() + " quiet " + last.Parameter() + " -- " +
		first.Parameter())
	if err != nil || len(all) != 2 || all[0] != first || all[1] != last {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := MMIODevices(first.Parameter() + " virtio_mmio.device=1K@0xfeafff00:9"); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "overlap") {
		t.Errorf("%v", err)
	}
	if all, err := MMIODevices(""); len(all) != 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	for _, n := range []int{-1, 8} {
		if _, err := MicroVMDevice(n); !fault.Is(err, fault.Invalid) {
			t.Errorf("transport %d: %v", n, err)
		}
	}
}

// FuzzMMIODevice gives any text: what is read is written and read again alike.
func FuzzMMIODevice(f *testing.F) {
	f.Add("512@0xfeb00000:5")
	f.Add("4K@0xfeb00000:5:1")
	f.Add("1G@0:0x10:2")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseMMIODevice(s)
		if err != nil {
			return
		}
		again, err := ParseMMIODevice(d.String())
		if err != nil || again.String() != d.String() || again.Size != d.Size || again.Base != d.Base ||
			again.IRQ != d.IRQ || (again.ID == nil) != (d.ID == nil) {
			t.Errorf("%q: %s, then %s, %v", s, d, again, err)
		}
	})
}
