package qemu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/boottest"
)

func TestQEMU(t *testing.T) { boottest.Run(t, New()) }

func TestMistakes(t *testing.T) {
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":          "\n",
		"x:1: no line has the form":       "qemu-system-x86_64: terminating on signal 15\n",
		"x:2: it is too long for a line":  "a\n" + strings.Repeat("x", boot.MaxLine+1) + "\n",
		"x:1: the trace has no read over": "1@5.000001:fw_cfg_add_file 1\n",
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
		r.Marks[1].At != 100 || *r.Marks[1].UncertaintyNS != 2000 || r.Marks[2].Name != bootmodel.MarkKernel ||
		len(r.Notes) != 1 || len(r.Spans) != 1 || r.Spans[0].End-r.Spans[0].Start != 85 {
		t.Errorf("start %d, marks %+v, spans %+v, notes %v", start, r.Marks, r.Spans, r.Notes)
	}
}

// A line of the debug port is a span up to the next one: below the firmware while it runs,
// and on a track of its own afterwards.
func TestDebugPort(t *testing.T) {
	const log = "1@5.000001:fw_cfg_add_file 1\n2@5.000021:fw_cfg_select 0 key 0x0019 'file_dir', ret: 1\n" +
		"0@5.000030:debug_port_write port 0x402 within 7 us: SeaBIOS (version 1)\n" +
		"0@5.000050:debug_port_write port 0x402 within ? us: Booting: ROM\n" +
		"0@5.000060:debug_port_write port 0x402 within soon\n" +
		"2@5.000101:fw_cfg_select 0 key 0x0011 'kernel_data'\n2@5.000103:pic_ioport_write\n" +
		"0@5.000120:debug_port_write port 0x402 within 1 us: 0x80\n" +
		"0@5.000150:debug_port_write port 0x402 within 1 us: end\n"
	r, err := New().Read("x", []byte(log))
	boottest.Check(t, New(), "x", r, err)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Spans {
		got = append(got, fmt.Sprintf("%d %d-%d %s %s", s.Parent, s.Start, s.End, r.Tracks[s.Track].Name, s.Name))
	}
	want := []string{"-1 10-100 firmware firmware", "0 29-49 firmware SeaBIOS (version 1)",
		"0 49-100 firmware Booting: ROM",
		"-1 119-149 debug port 0x402 0x80", "-1 149-149 debug port 0x402 end"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	i := slices.IndexFunc(r.Marks, func(m bootmodel.Mark) bool { return m.Name == MarkDebug })
	if i < 0 || r.Marks[i].At != 29 || *r.Marks[i].UncertaintyNS != 7000 {
		t.Errorf("marks %+v", r.Marks)
	}
}

func FuzzQEMU(f *testing.F) {
	boottest.Fuzz(f, New(), "1@5.000001:fw_cfg_add_file 1\n2@5.000021:fw_cfg_select 0 key 0x0015\n",
		"1@1.1:pic_ioport_write\n", "1@5.000001:fw_cfg_add_file 1\n2@5.000021:fw_cfg_select 0 key 0x0015\n"+
			"0@5.000030:debug_port_write port 0x402 within 7 us: SeaBIOS\n0@5.00004:debug_port_write port 80\n")
}
