"""Match: which accounts of the payment network are at this bank, with which atoms (protocol.md §3).

    PaymentNetwork  places its accounts in a cuckoo table, one per bin; x is the tag of the bin's
                    account modulo T, a random residue if the bin is empty
      1.  sends E1[x^i] for a few exponents i                                       → Bank
    Bank            enters each of its accounts in its three bins; of every bin, over its accounts,
                    P = ∏ (x − tag), and L takes the number of the account's atom at its tag
      2.  r, ρ ← Z_T per bin;  sends sanitised E1[P(x) + r], E1[L(x) + ρ]           → PaymentNetwork
    PaymentNetwork
      3.  opens v = P(x) + r;  sends E2[digits of v]                                → Bank
    Bank
      4.  h = Σ (digit of v − digit of r)²: 0 just where P(x) = 0
          g ← Z_65537 per bin;  sends sanitised E2[h + g]                           → PaymentNetwork
    PaymentNetwork
      5.  sends E2[bits of (h + g) mod 482]                                         → Bank
    Bank
      6.  h′ = Σ (bit − bit of g mod 482)²: 0 just where h = 0
          g′ ← Z_65537 per bin;  sends sanitised E2[h′ + g′]                        → PaymentNetwork
    PaymentNetwork
      7.  sends E3[(h′ + g′) mod 11 is i] for each i of 11,
          and E3[ω^(m·(L(x) + ρ))] for m = 1 … K − 1, ω of order 32 modulo t        → Bank
    Bank
      8.  I is the first of these at i = g′ mod 11: 1 just where h′ = 0
          J_m = I·ω^(m·L(x)) for m = 0 … K − 1, from the others and ρ; with I_k = I·[L(x) = k]
          for the K atoms k it is Σ_k ω^(mk)·I_k, and so the J_m determine the I_k
          s′_m ← Z_t per bin, s_k of them as I_k of J_m
          sends sanitised E3[J_m + s′_m], and E_j[s_k]                              → PaymentNetwork
    PaymentNetwork
      9.  opens J_m + s′_m, and has of them u_k = I_k + s_k

Of h and h′ the bank leaves out the squares of the payment network's own digits, which that adds
itself.  A small table lies in several strips of a ciphertext (`he.strips`): a bin's value and mask
are then sums over its strips, which each party adds up in the clear.

E1, E2, E3 are the payment network's rings for tags, distances and the run's own t.  The join is
shared, I_k = u_k − s_k, and no party knows it: the bank sees ciphertexts only, and all that the
payment network opens is uniform.  r, ρ, g, g′ and s′_m are drawn for one message of one run, a mask
for every slot, and what answers it is stored before it is sent: the same g with other digits would
tell differences.  All sizes follow from the table's layout, the bound on the bank's loads and the
number of atoms.

The rounds of a bank follow one another: step 1 and 2 for all blocks, then 3 and 4, and so on.
"""
