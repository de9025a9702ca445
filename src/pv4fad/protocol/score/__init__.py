"""Score: one bit about an account (protocol.md §6), or votes for transactions (§11).

*Decisions.*  Is the record of the account in a bin in the set A that is asked about?  A bin has
one slot.  With c_k = [k in A] − [absent in A], all 0 where nothing is asked:

    PaymentNetwork
      1.  ρ ← Z_t per slot;  sends sanitised  Z = E_j[−Σ_k c_k·s_k + ρ]              → Bank
    Bank
      2.  returns what it opens, R, uniform                                         → PaymentNetwork
    PaymentNetwork
      3.  bit = [absent in A] + Σ_k c_k·u_k + R − ρ

Of a table with several banks the constant counts once, and R is the sum over all banks.

*Votes* of a sealed model.  A slot is a bin; a *layer* holds at most one transaction side per bin.
For the groups g that this side reaches, with label shares p (PaymentNetwork) and b (Bank),

    P_0 = Σ_g p[g, rest],   P_c = Σ_g (p[g, c] − p[g, rest]),   B_0, B_c likewise from b
    vote = (P_0 + B_0) + Σ_c I_c·(P_c + B_c),   I_c = u_c − s_c

Once per table and model:
      0.  PaymentNetwork: n_c ← Z_t per bin; sends sanitised E_j[s_c + n_c]         → Bank
          Bank opens v_c = s_c + n_c, uniform; sends E_j[b] of every leaf           → PaymentNetwork
and per layer:
    PaymentNetwork
      1.  m_c, ρ ← Z_t per slot;  sends sanitised  y_c = E_j[B_c + m_c]  and        → Bank
          Z = E_j[B_0 + Σ_c ((u_c + n_c)·B_c − (P_c − m_c)·s_c + m_c·n_c) + ρ]
    Bank
      2.  returns  R = Z − Σ_c y_c·v_c                                              → PaymentNetwork
    PaymentNetwork
      3.  vote = P_0 + Σ_j (Σ_c P_c·u_c + R_j − ρ_j)

Banks see uniform slots, the same number for every layer, whether a slot is in use or not.  B_0 is
asked of one bank per table only.  Every function is a worker's job for one block of the share ring.
"""
