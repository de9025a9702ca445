"""Match: which accounts of the payment network are at this bank, with which atoms (protocol.md §3).

    PaymentNetwork  places its accounts in a cuckoo table, one per bin; a bin's tag is a codeword of
                    m bits, w of them 1; an empty bin is all zero
      1.  sends E_S[bit i of every bin], i < m                                      → Bank
    Bank            enters each of its accounts in its three bins; layer l has one account per bin
      2.  per layer:  a = Σ_i E_S[bit i]·(bit i of the layer's codewords)   agreeing ones, 0..w
                      e = f(a),  f of degree w with f(w) = 1, f(0..w−1) = 0
                      I_k += e·[the layer's account has atom k]             for every atom k
      3.  s_k ← Z_t per bin;  sends sanitised E_S[I_k + s_k], and E_j[s_k]          → PaymentNetwork
    PaymentNetwork
      4.  decrypts u_k = I_k + s_k

The join is shared, I_k = u_k − s_k, and no party knows it: the bank sees ciphertexts only, u_k is
uniform, and so is s_k.  All sizes follow from the table's layout and the number of atoms.

The cost is in step 2.  A layer with few accounts needs fewer products, and two blocks share the
evaluation of f where their layers have accounts in different bins.

Every function here is a worker's job: it takes and returns plain data, for one block or two.
"""
