//go:build linux

package bootdisk

import (
	"bytes"
	"encoding/binary"

	"bakeoff/reach/initramfs"
)

// Burnt is what the guest of Burn reports on the instruction clock.
const Burnt = "burnt"

// Burn returns a RAM disk whose init executes 2n instructions, reports Burnt and ends.
func Burn(n uint64) []byte {
	code := append([]byte{0x48, 0xb9}, binary.LittleEndian.AppendUint64(nil, n)...) // mov rcx, n
	code = append(code,
		0x48, 0xff, 0xc9, // again: dec rcx
		0x75, 0xfb, // jnz again
		0x48, 0x8d, 0x3d, 0x23, 0x00, 0x00, 0x00, // lea rdi, mark
		0x6a, 0x00, // push 0
		0x48, 0x8d, 0x05, 0x29, 0x00, 0x00, 0x00, // lea rax, burnt
		0x50,             // push rax
		0x57,             // push rdi
		0x48, 0x89, 0xe6, // mov rsi, rsp
		0x31, 0xd2, // xor edx, edx
		0xb8, 0x3b, 0x00, 0x00, 0x00, // mov eax, 59: execve(mark, {mark, burnt}, null)
		0x0f, 0x05, // syscall
		0xbf, 0x01, 0x00, 0x00, 0x00, // mov edi, 1
		0xb8, 0x3c, 0x00, 0x00, 0x00, // mov eax, 60: exit
		0x0f, 0x05, // syscall
	)
	code = append(append(code, initramfs.Mark...), 0)
	code = append(append(code, Burnt...), 0)
	program := initramfs.ELF(code)
	var out bytes.Buffer
	a := initramfs.New(&out)
	// A buffer accepts every write, and the program has its whole size.
	_ = a.File("/init", 0o755, int64(len(program)), bytes.NewReader(program))
	_ = a.Close()
	return out.Bytes()
}
