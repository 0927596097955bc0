package qemu

import (
	"strings"
	"testing"

	"bakeoff/measure/boot"
	"bakeoff/measure/boot/boottest"
)

func TestQEMU(t *testing.T) { boottest.Run(t, New()) }

func TestMistakes(t *testing.T) {
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":               "\n",
		"x:1: no line has the form":            "qemu-system-x86_64: terminating on signal 15\n",
		"x:2: the line has more than":          "a\n" + strings.Repeat("x", boot.MaxLine+1) + "\n",
		"x:1: no processor read anything over": "1@5.000001:fw_cfg_add_file 1\n",
	})
}

// The processor starts between the last event of the first thread and the first event of
// another one. The kernel starts after the last part of it was read, not after what it
// reads itself.
func TestMarks(t *testing.T) {
	r, start, err := Read("x", []byte("1@5.000001:fw_cfg_add_file 1\nqemu: a warning\n1@5.000011:fw_cfg_add_file 2\n"+
		"2@5.000021:fw_cfg_select 0 key 0x0019 'file_dir', ret: 1\n2@5.000101:fw_cfg_select 0 key 0x0011 'kernel_data'\n"+
		"2@5.000103:pic_ioport_write\n2@4.000000:fw_cfg_select 0 key 0x0019 'file_dir', ret: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if start != 5000001000 || len(r.Marks) != 3 || r.Marks[0].At != 15 || *r.Marks[0].UncertaintyNS != 5000 ||
		r.Marks[1].At != 100 || *r.Marks[1].UncertaintyNS != 2000 || r.Marks[2].Name != boot.MarkKernel ||
		len(r.Notes) != 1 || len(r.Spans) != 1 || r.Spans[0].End-r.Spans[0].Start != 85 {
		t.Errorf("start %d, marks %+v, spans %+v, notes %v", start, r.Marks, r.Spans, r.Notes)
	}
}

func FuzzQEMU(f *testing.F) {
	boottest.Fuzz(f, New(), "1@5.000001:fw_cfg_add_file 1\n2@5.000021:fw_cfg_select 0 key 0x0015\n",
		"1@1.1:pic_ioport_write\n")
}
