package kvm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/reach/wire"
)

// The requests of Documentation/virt/kvm/api.rst, as encoded on amd64.
const (
	kvmGetAPIVersion   = 0xae00
	kvmCreateVM        = 0xae01
	kvmGetVCPUMmapSize = 0xae04
	kvmGetCPUID        = 0xc008ae05
	kvmCreateVCPU      = 0xae41
	kvmSetMemory       = 0x4020ae46
	kvmSetTSSAddr      = 0xae47
	kvmRun             = 0xae80
	kvmGetRegs         = 0x8090ae81
	kvmSetRegs         = 0x4090ae82
	kvmGetSregs        = 0x8138ae83
	kvmSetSregs        = 0x4138ae84
	kvmSetCPUID        = 0x4008ae90

	kvmAPIVersion = 12
	kvmExitHlt    = 5
	kvmExitError  = 17
)

// kvmFast is many times what a real processor needs for the guest below, a
// million loops. An emulating backend needs minutes.
const kvmFast = 100 * time.Millisecond

// kvmGuest is 64-bit code: a population count, arithmetic in an SSE register,
// and a loop. A backend that can only step through boot sectors does not
// support these, or not in time.
var kvmGuest = []byte{
	0x48, 0xb8, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, 0x0f, // mov rax, 0x0f0f0f0f0f0f0f0f
	0xf3, 0x48, 0x0f, 0xb8, 0xd8, // popcnt rbx, rax
	0x66, 0x48, 0x0f, 0x6e, 0xc0, // movq xmm0, rax
	0x66, 0x0f, 0xd4, 0xc0, // paddq xmm0, xmm0
	0x66, 0x48, 0x0f, 0x7e, 0xc2, // movq rdx, xmm0
	0xb9, 0x40, 0x42, 0x0f, 0x00, // mov ecx, 1000000
	0x31, 0xf6, // xor esi, esi
	0x48, 0x01, 0xde, // add rsi, rbx
	0xff, 0xc9, // dec ecx
	0x75, 0xf9, // jnz the add
	0xf4, // hlt
}

// The result of kvmGuest.
const (
	kvmCount = 32
	kvmSum   = 0x1e1e1e1e1e1e1e1e
	kvmLoops = 1000000 * kvmCount
)

// The guest's physical memory.
const (
	kvmMemory = 64 << 10
	kvmPML4   = 0x1000
	kvmPDPT   = 0x2000
	kvmPD     = 0x3000
	kvmCode   = 0x4000
	kvmStack  = 0x8000
)

// kvmRegs is struct kvm_regs.
type kvmRegs struct {
	RAX, RBX, RCX, RDX, RSI, RDI, RSP, RBP uint64
	R                                      [8]uint64
	RIP, RFLAGS                            uint64
}

// kvmSegment is struct kvm_segment.
type kvmSegment struct {
	Base                                    uint64
	Limit                                   uint32
	Selector                                uint16
	Type, Present, DPL, DB, S, L, G, AVL, U uint8
	_                                       uint8
}

// kvmSregs is struct kvm_sregs.
type kvmSregs struct {
	CS, DS, ES, FS, GS, SS, TR, LDT     kvmSegment
	GDT, IDT                            [2]uint64
	CR0, CR2, CR3, CR4, CR8, EFER, APIC uint64
	Interrupts                          [4]uint64
}

// kvmMachine is a minimal machine with one processor.
type kvmMachine struct {
	dev, vm, vcpu int
	memory, state []byte
}

func runGuest() wire.KVMResult {
	no := func(err error) wire.KVMResult { return wire.KVMResult{Probed: true, Reason: err.Error()} }
	dev, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return no(fmt.Errorf("/dev/kvm: %w", err))
	}
	m := &kvmMachine{dev: dev}
	if err := m.assemble(); err != nil {
		return no(err)
	}
	// A busy host may delay a run, so the best of three counts.
	var took time.Duration
	for i := range 3 {
		if err := m.reset(); err != nil {
			return no(err)
		}
		start := time.Now()
		if err := m.run(); err != nil {
			return no(err)
		}
		if d := time.Since(start); i == 0 || d < took {
			took = d
		}
		if took <= kvmFast {
			return wire.KVMResult{Probed: true, Works: true}
		}
	}
	return no(fmt.Errorf("a guest of a million loops took %v: its instructions are emulated",
		took.Round(time.Millisecond)))
}

func ioctl(fd int, request uintptr, arg uintptr) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}

// assemble creates the machine, with identity page tables. The machine ends
// with this process.
func (m *kvmMachine) assemble() error {
	if v, err := ioctl(m.dev, kvmGetAPIVersion, 0); err != nil || v != kvmAPIVersion {
		return fmt.Errorf("KVM has the API version %d instead of %d (%v)", v, kvmAPIVersion, err)
	}
	var err error
	if m.vm, err = ioctl(m.dev, kvmCreateVM, 0); err != nil {
		return fmt.Errorf("KVM cannot create a machine: %w", err)
	}
	// Intel needs three pages for itself; elsewhere the call fails.
	_, _ = ioctl(m.vm, kvmSetTSSAddr, 0xfffbd000)
	if m.memory, err = unix.Mmap(-1, 0, kvmMemory, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return err
	}
	const presentWritable, large = 0x3, 0x80
	binary.LittleEndian.PutUint64(m.memory[kvmPML4:], kvmPDPT|presentWritable)
	binary.LittleEndian.PutUint64(m.memory[kvmPDPT:], kvmPD|presentWritable)
	binary.LittleEndian.PutUint64(m.memory[kvmPD:], presentWritable|large)
	copy(m.memory[kvmCode:], kvmGuest)
	region := struct {
		Slot, Flags         uint32
		Guest, Size, Memory uint64
	}{Size: kvmMemory, Memory: uint64(uintptr(unsafe.Pointer(&m.memory[0])))}
	if _, err := ioctl(m.vm, kvmSetMemory, uintptr(unsafe.Pointer(&region))); err != nil {
		return fmt.Errorf("KVM cannot set memory: %w", err)
	}
	if m.vcpu, err = ioctl(m.vm, kvmCreateVCPU, 0); err != nil {
		return fmt.Errorf("KVM cannot create a processor: %w", err)
	}
	size, err := ioctl(m.dev, kvmGetVCPUMmapSize, 0)
	if err != nil {
		return err
	}
	if m.state, err = unix.Mmap(m.vcpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	return m.identify()
}

// identify gives the processor every feature that KVM supports.
func (m *kvmMachine) identify() error {
	var cpuid struct {
		Count, _ uint32
		Entries  [256][10]uint32
	}
	cpuid.Count = uint32(len(cpuid.Entries))
	if _, err := ioctl(m.dev, kvmGetCPUID, uintptr(unsafe.Pointer(&cpuid))); err != nil {
		return fmt.Errorf("KVM does not report its CPU features: %w", err)
	}
	if _, err := ioctl(m.vcpu, kvmSetCPUID, uintptr(unsafe.Pointer(&cpuid))); err != nil {
		return fmt.Errorf("KVM does not accept its own CPU features: %w", err)
	}
	return nil
}

// reset sets the processor to the start of the code, in 64-bit mode with SSE
// enabled.
func (m *kvmMachine) reset() error {
	var s kvmSregs
	if _, err := ioctl(m.vcpu, kvmGetSregs, uintptr(unsafe.Pointer(&s))); err != nil {
		return err
	}
	data := kvmSegment{Limit: 0xffffffff, Selector: 0x10, Type: 3, Present: 1, DB: 1, S: 1, G: 1}
	s.CS = kvmSegment{Limit: 0xffffffff, Selector: 8, Type: 11, Present: 1, S: 1, L: 1, G: 1}
	s.DS, s.ES, s.FS, s.GS, s.SS = data, data, data, data, data
	s.CR0 = 0x80050033 // PG AM WP NE ET MP PE
	s.CR3 = kvmPML4
	s.CR4 = 0x620  // OSXMMEXCPT OSFXSR PAE
	s.EFER = 0x500 // LMA LME
	if _, err := ioctl(m.vcpu, kvmSetSregs, uintptr(unsafe.Pointer(&s))); err != nil {
		return fmt.Errorf("KVM cannot enter 64-bit mode: %w", err)
	}
	r := kvmRegs{RIP: kvmCode, RSP: kvmStack, RFLAGS: 2}
	_, err := ioctl(m.vcpu, kvmSetRegs, uintptr(unsafe.Pointer(&r)))
	return err
}

// run runs the guest and checks its result.
func (m *kvmMachine) run() error {
	if _, err := ioctl(m.vcpu, kvmRun, 0); err != nil {
		return fmt.Errorf("KVM cannot run the guest: %w", err)
	}
	const exitReason = 8 // in struct kvm_run
	switch why := binary.LittleEndian.Uint32(m.state[exitReason:]); why {
	case kvmExitHlt:
	case kvmExitError:
		return errors.New("KVM cannot run a 64-bit guest: internal error at its first instructions")
	default:
		return fmt.Errorf("the guest ended with the KVM exit reason %d instead of halting", why)
	}
	var r kvmRegs
	if _, err := ioctl(m.vcpu, kvmGetRegs, uintptr(unsafe.Pointer(&r))); err != nil {
		return err
	}
	if r.RBX != kvmCount || r.RDX != kvmSum || r.RSI != kvmLoops {
		return errors.New("the guest computed a wrong result")
	}
	return nil
}
