package initramfs

import (
	"bytes"
	"encoding/binary"
)

// The programs in a RAM disk that report the clock of the machine. First is process 1: it
// reports the moment of the first userland instruction and then starts the system's own
// init, or restarts the machine. A guest starts Mark with a name to report a moment of its
// own.
const (
	First = "/.bakeoff/first"
	Mark  = "/.bakeoff/mark"
)

// ClockPort is the I/O port of the machine that the programs write to, and ClockUserland
// the name of the first report. A report is a line: the time-stamp counter in 16
// hexadecimal digits, a space and a name.
const (
	ClockPort     = 0xe9
	ClockUserland = "userland"
)

// What a clock program does after its report.
const (
	clockExec    = iota // replace itself by another program
	clockRestart        // restart the machine
	clockExit
)

// Clock adds the programs that report the clock. First starts next, the path of a program
// in the RAM disk; without one it restarts the machine.
func (a *Archive) Clock(next string) error {
	then := byte(clockExec)
	if next == "" {
		then = clockRestart
	}
	for _, f := range []struct {
		name    string
		program []byte
	}{{First, clockProgram(then, next)}, {Mark, clockProgram(clockExit, "")}} {
		if err := a.File(f.name, 0o755, int64(len(f.program)), bytes.NewReader(f.program)); err != nil {
			return err
		}
	}
	return nil
}

// clockCode is a program for Linux on amd64. Its first instruction reads the counter, so
// that nothing else is part of the moment. It needs no library, no file and no memory of
// its own, and writes to a port, because a device would have to be initialized. After it
// come a byte with what to do then, the name of the report and the path of the next
// program.
var clockCode = []byte{
	0x0f, 0x31, // rdtsc
	0x48, 0xc1, 0xe2, 0x20, // shl rdx, 32
	0x48, 0x09, 0xd0, // or rax, rdx
	0x49, 0x89, 0xc4, // mov r12, rax
	0x49, 0x89, 0xe6, // mov r14, rsp: argc, argv, envp
	0xb8, 0xad, 0x00, 0x00, 0x00, // mov eax, 173: ioperm(port, 1, 1)
	0xbf, ClockPort, 0x00, 0x00, 0x00, // mov edi, port
	0xbe, 0x01, 0x00, 0x00, 0x00, // mov esi, 1
	0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, 1
	0x0f, 0x05, // syscall
	0x48, 0x85, 0xc0, // test rax, rax
	0x75, 0x64, // jne done
	0xb9, 0x10, 0x00, 0x00, 0x00, // mov ecx, 16
	0x66, 0xba, ClockPort, 0x00, // mov dx, port
	0x49, 0xc1, 0xc4, 0x04, // digit: rol r12, 4
	0x44, 0x89, 0xe0, // mov eax, r12d
	0x83, 0xe0, 0x0f, // and eax, 15
	0x83, 0xf8, 0x0a, // cmp eax, 10
	0x72, 0x03, // jb small
	0x83, 0xc0, 0x27, // add eax, 'a'-'0'-10
	0x83, 0xc0, 0x30, // small: add eax, '0'
	0xee,       // out dx, al
	0xff, 0xc9, // dec ecx
	0x75, 0xe6, // jne digit
	0xb8, 0x20, 0x00, 0x00, 0x00, // mov eax, ' '
	0xee,                                     // out dx, al
	0x48, 0x8d, 0x35, 0x92, 0x00, 0x00, 0x00, // lea rsi, name
	0x80, 0x3d, 0x8a, 0x00, 0x00, 0x00, clockExit, // cmp then, clockExit
	0x75, 0x0a, // jne write
	0x49, 0x83, 0x3e, 0x02, // cmp argc, 2
	0x72, 0x0c, // jb written
	0x49, 0x8b, 0x76, 0x10, // mov rsi, argv[1]
	0xac,       // write: lodsb
	0x84, 0xc0, // test al, al
	0x74, 0x03, // je written
	0xee,       // out dx, al
	0xeb, 0xf8, // jmp write
	0xb0, 0x0a, // written: mov al, '\n'
	0xee,                         // out dx, al
	0xb8, 0xad, 0x00, 0x00, 0x00, // mov eax, 173: ioperm(port, 1, 0), so that the next program starts as usual
	0xbf, ClockPort, 0x00, 0x00, 0x00, // mov edi, port
	0xbe, 0x01, 0x00, 0x00, 0x00, // mov esi, 1
	0xba, 0x00, 0x00, 0x00, 0x00, // mov edx, 0
	0x0f, 0x05, // syscall
	0x80, 0x3d, 0x56, 0x00, 0x00, 0x00, clockRestart, // done: cmp then, clockRestart
	0x74, 0x2e, // je restart
	0x80, 0x3d, 0x4d, 0x00, 0x00, 0x00, clockExit, // cmp then, clockExit
	0x74, 0x42, // je finish
	0x48, 0x8d, 0x3d, 0x4e, 0x00, 0x00, 0x00, // lea rdi, path
	0x49, 0x89, 0x7e, 0x08, // mov argv[0], rdi
	0x49, 0x8d, 0x76, 0x08, // lea rsi, argv
	0x49, 0x8b, 0x16, // mov rdx, argc
	0x49, 0x8d, 0x54, 0xd6, 0x10, // lea rdx, envp
	0xb8, 0x3b, 0x00, 0x00, 0x00, // mov eax, 59: execve(path, argv, envp)
	0x0f, 0x05, // syscall
	0xbf, 0x7f, 0x00, 0x00, 0x00, // mov edi, 127
	0xeb, 0x1f, // jmp leave
	0xbf, 0xad, 0xde, 0xe1, 0xfe, // restart: mov edi, LINUX_REBOOT_MAGIC1
	0xbe, 0x69, 0x19, 0x12, 0x28, // mov esi, LINUX_REBOOT_MAGIC2
	0xba, 0x67, 0x45, 0x23, 0x01, // mov edx, LINUX_REBOOT_CMD_RESTART
	0xb8, 0xa9, 0x00, 0x00, 0x00, // mov eax, 169: reboot
	0x0f, 0x05, // syscall
	0xbf, 0x7e, 0x00, 0x00, 0x00, // mov edi, 126
	0xeb, 0x02, // jmp leave
	0x31, 0xff, // finish: xor edi, edi
	0xb8, 0x3c, 0x00, 0x00, 0x00, // leave: mov eax, 60: exit
	0x0f, 0x05, // syscall
}

// clockBase is where the program is loaded.
const clockBase = 0x400000

// clockProgram returns the program as an ELF file with one segment.
func clockProgram(then byte, path string) []byte {
	code := append(append([]byte{}, clockCode...), then)
	code = append(append(code, ClockUserland...), 0)
	code = append(append(code, path...), 0)
	return ELF(code)
}

// ELF returns an ELF program for Linux on amd64 whose only segment is code: it is read
// and executed from its first byte on, and never written.
func ELF(code []byte) []byte {
	const header, program = 64, 56
	le := binary.LittleEndian
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = le.AppendUint16(b, 2)  // ET_EXEC
	b = le.AppendUint16(b, 62) // EM_X86_64
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, clockBase+header+program) // entry
	b = le.AppendUint64(b, header)                   // program headers
	b = le.AppendUint64(b, 0)
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{header, program, 1, 64, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(b, 1) // PT_LOAD
	b = le.AppendUint32(b, 5) // read, execute
	size := uint64(header + program + len(code))
	for _, v := range []uint64{0, clockBase, clockBase, size, size, 0x1000} {
		b = le.AppendUint64(b, v)
	}
	return append(b, code...)
}
