"""Count: the private intersection sums N_c = Σ d·I_c, shared (protocol.md §4).

    PaymentNetwork  knows the integers d[bin] of every group and the shares u_k; for each sum (g, c)
      1.  ρ ← Z_t per slot;  keeps  p = Σ <d, u_c> + Σ ρ
          sends sanitised  Σ_blocks d·E_j[s_c] + ρ                                  → Bank
    Bank
      2.  decrypts and adds up the slots:  q = Σ <d, s_c> + Σ ρ

N_c = p − q mod t, summed over banks and tables.  The bank sees uniform slots, the payment network
nothing new.  Sums of different trees share ciphertexts (`packing`); an empty sum looks like any
other.  Every function is a worker's job on plain data.
"""
